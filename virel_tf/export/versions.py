"""Numbered versions of a model in a folder, as model servers watch them.

Whole or not there, and never changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from virel_tf.errors import RunError
from virel_tf.files import TEMPORARY, ensure_writable, sync_file, sync_folder
from virel_tf.run_folder.paths import LOCK


def add_version(folder: Path, write: Callable[[Path], None]) -> Path:
    """Has `write` fill a new folder, which then gets the next number; returns that."""
    ensure_writable(folder)
    try:
        with one_at_a_time(folder):
            # left by a killed process, since this one holds the lock
            for left in folder.iterdir():
                if re.fullmatch(re.escape(TEMPORARY) + r"\d+", left.name) and left.is_dir():
                    shutil.rmtree(left)
            target = folder / str(max(numbers(folder), default=0) + 1)
            temporary = folder / (TEMPORARY + target.name)  # not a number, so servers ignore it
            temporary.mkdir()
            try:
                write(temporary)
                sync_tree(temporary)
                os.rename(temporary, target)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            sync_folder(folder)
    except OSError as error:
        raise RunError(f"cannot write a version in {folder}: {error.strerror or error}") from error
    return target


def newest_version(folder: Path) -> Path | None:
    """The version with the highest number."""
    return folder / str(max(numbers(folder))) if numbers(folder) else None


def numbers(folder: Path) -> list[int]:
    """The versions that are there."""
    if not folder.is_dir():
        return []
    return [int(path.name) for path in folder.iterdir() if path.name.isdecimal() and path.is_dir()]


def number_of(version: Path) -> int:
    """The number of a version, be it still under its temporary name."""
    return int(version.name.removeprefix(TEMPORARY))


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Waits until no other process adds a version here."""
    with open(folder / LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sync_tree(folder: Path) -> None:
    """Waits until the disk has every file below."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            sync_file(path)
    sync_folder(folder)
