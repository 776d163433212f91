"""The lock of a run's folder: one process at a time writes there."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from virel_tf.errors import RunError
from virel_tf.run_folder.paths import LOCK

TRIES = 10  # how often to try for the lock before the last time
WAIT = 0.1  # seconds between two tries


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Holds the folder's lock, so that two processes never write to one run."""
    try:
        lock = open(folder / LOCK, "w")
        take_lock(lock)
    except BlockingIOError:
        raise RunError(f"another process is training in {folder}") from None
    except OSError as error:
        raise RunError(f"cannot lock {folder}: {error.strerror}") from error
    with lock:
        yield


def take_lock(lock: TextIO) -> None:
    """Takes the exclusive lock; BlockingIOError where another process keeps it."""
    for _ in range(TRIES):
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # `in_use` may hold it for a moment
            time.sleep(WAIT)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def in_use(folder: Path) -> bool:
    """Whether a process is training there."""
    try:
        with open(folder / LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
