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
        """Starts, or goes on with, a cell."""
        self._processes[cell.name] = cell, launch(cell.command, cell.folder)

    def ended(self) -> list[tuple[Cell, int]]:
        """Cells whose process has ended since the last call, and its exit code.

        It is negative where that signal killed the process.
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
        """Asks every process to save and end, and waits until they have.

        No cell is waited for in vain.
        """
        for _, process in self._processes.values():
            process.terminate()
        for _, process in self._processes.values():
            process.wait()
        return []


def launch(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Starts training in a process that ends with this one.

    What it has to say is written to the run's folder.

    A session of its own keeps Ctrl-C from reaching it twice: the experiment passes the wish to stop
    on.
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
    """For a child to call as it starts: SIGTERM when its parent dies, however that comes.

    None where the system is not Linux.

    Elsewhere an orphan trains on, and the experiment, started again, waits for it.
    """
    if not sys.platform.startswith("linux"):
        return None
    library, parent = ctypes.CDLL(None), os.getpid()

    def ask() -> None:
        library.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before it was asked
            os._exit(128 + signal.SIGTERM)

    return ask


def last_line(folder: Path) -> str:
    """The last thing that training in this folder had to say."""
    try:
        lines = output_path(folder).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return said[-1].removeprefix("virel-tf: ") if said else ""
