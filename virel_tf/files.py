"""Files that are written whole or not at all, and that last through a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from virel_tf.errors import RunError

TEMPORARY = ".tmp-"  # begins the name of what is not complete yet


def atomic_write(path: Path, data: bytes) -> None:
    """Makes the file hold `data`.

    Where that fails (RunError) or is cut short, the file stays as it was.
    """
    temporary = path.with_name(TEMPORARY + path.name)
    try:
        write_through(temporary, data)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise RunError(f"cannot write {path}: {error.strerror}") from error


def ensure_writable(folder: Path) -> None:
    """Makes the folder and tries to write in it; RunError where that fails."""
    try:
        if not folder.exists():  # else a file in the way would be told as "File exists"
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(4096))
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror}") from error


def write_through(path: Path, data: bytes) -> None:
    """Writes a file and waits until the disk has it."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Waits until the disk has a file that somebody else wrote."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder last, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
