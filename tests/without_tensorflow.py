"""The command line in a process that cannot import TensorFlow."""

from __future__ import annotations

import subprocess
import sys


def virel_tf(*arguments: str) -> subprocess.CompletedProcess:
    """Runs `virel-tf ARGUMENTS`, with TensorFlow out of reach.

    Importing it would end in a traceback.
    """
    program = (
        "import runpy, sys; sys.modules['tensorflow'] = None; sys.argv = ['virel-tf',"
        " *sys.argv[1:]];runpy.run_module('virel_tf', run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True
    )
