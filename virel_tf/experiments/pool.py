"""Where cells run: processes on this machine.

`ray_pool` has the same four methods for a cluster.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from virel_tf.experiments.grid import Cell
from virel_tf.run_folder.paths import output_path

PR_SET_PDEATHSIG = 1


class LocalPool:
    """Processes on this machine, `slots` at a time."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._processes: dict[str, tuple[Cell, subprocess.Popen[bytes]]] = {}

    def slots(self) -> int:
        """How many cells can run at a time."""
        return self._slots

    def start(self, cell: Cell) -> None:
        """Starts or resumes a cell."""
        self._processes[cell.name] = cell, launch(cell.command, cell.folder)

    def ended(self) -> list[tuple[Cell, int]]:
        """Cells whose process has ended since the last call, and its exit code.

        -n: killed by signal n.
        """
        over = [
            (cell, process.returncode)
            for cell, process in self._processes.values()
            if process.poll() is not None
        ]
        for cell, _ in over:
            del self._processes[cell.name]
        return over

    def stop(self) -> list[str]:
        """Makes every process save and exit, and waits for all.

        Returns the cells that did not: none.
        """
        for _, process in self._processes.values():
            process.terminate()
        for _, process in self._processes.values():
            process.wait()
        return []


def launch(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Starts training in a process that logs to the run's folder and ends with this one.

    It has a new session, so that Ctrl-C does not reach it twice: the experiment forwards signals.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(output_path(folder), "ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent(),  # noqa: PLW1509  (it takes no locks)
        )


def end_with_parent() -> Callable[[], None] | None:
    """For a child to call as it starts: SIGTERM when its parent exits, for whatever reason.

    None outside Linux: there an orphan continues to train, and a resumed experiment waits for it.
    """
    if not sys.platform.startswith("linux"):
        return None
    library, parent = ctypes.CDLL(None), os.getpid()

    def request() -> None:
        library.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent exited before the request
            os._exit(128 + signal.SIGTERM)

    return request


def last_line(folder: Path) -> str:
    """The last line that training in this folder printed."""
    try:
        lines = output_path(folder).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return said[-1].removeprefix("virel-tf: ") if said else ""
