"""Checkpoints on disk that survive a kill or a power cut at any instant, and say so when they are damaged.

    folder/step-000012000/manifest.json    step, info, and size and SHA-256 of every file below
                          state.npz        the arrays
                          NAME.bin         one file per blob
    folder/replay/rows-FIRST-LAST.npz      rows of the replay log; written once, shared by successive checkpoints

A checkpoint is written under a temporary name, flushed to the disk, and only then renamed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from virel_tf.errors import RunError

FORMAT = 1
KEPT = 2  # whole checkpoints left after a save
TEMPORARY = ".tmp-"


class Segment(NamedTuple):
    """Rows [first, last) of the replay log."""

    first: int
    last: int
    arrays: dict[str, np.ndarray]


class Checkpoint(NamedTuple):
    """What was saved: arrays, bytes, JSON-able info, and the replay rows still in use, oldest first."""

    step: int
    arrays: dict[str, np.ndarray]
    blobs: dict[str, bytes]
    info: dict[str, Any]
    segments: list[Segment]


class CheckpointStore:
    """The checkpoints of one run. One process at a time may save into a folder."""

    def __init__(self, folder: Path, warn: Callable[[str], None] | None = None) -> None:
        self.folder = Path(folder)
        self._replay = self.folder / "replay"
        self._warn = warn or (lambda line: print(line, file=sys.stderr))
        self._segments: list[dict] = []  # manifest entries of the checkpoint last loaded or saved

    def save(self, step: int, arrays: dict[str, np.ndarray], blobs: dict[str, bytes], info: dict[str, Any],
             new_segment: Segment | None, keep_from: int) -> Path:
        """Adds a checkpoint and removes what it makes superfluous.

        `new_segment` holds the replay rows added since the last save or load; rows before `keep_from` are no
        longer needed. RunError where the disk refuses: the checkpoints from before are then as they were.
        """
        target = self.folder / f"step-{step:09d}"
        temporary = self.folder / (TEMPORARY + target.name)
        newest = self.newest_path()
        if newest and _step_of(newest) > step:
            raise RunError(f"cannot save step {step} in {self.folder}: {newest.name} of another run is there")
        segments = self._continued(new_segment, keep_from)
        try:
            self._replay.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            if new_segment is not None:
                segments.append(self._add_rows(new_segment, temporary))
            _write_folder(temporary, step, arrays, blobs, info, segments)
            self._put_in_place(temporary, target)
        except OSError as error:
            self._discard(temporary, segments)
            newest = self.newest_path()
            left = f"{newest} is still whole" if newest else "there is no earlier checkpoint"
            raise RunError(f"cannot write checkpoint {target}: {reason(error)}; {left}") from error
        self._segments = segments
        self._clean_up()
        return target

    def load_newest(self) -> Checkpoint | None:
        """The newest whole checkpoint; None where nothing was ever saved. Damaged ones are set aside."""
        damaged = False
        for path in self._candidates():
            try:
                manifest = _read_manifest(path)
                checkpoint = _read_checkpoint(path, self._replay, manifest)
            except _Damaged as damage:
                damaged = True
                self._set_aside(path, damage)
            else:
                self._segments = manifest["segments"]
                return checkpoint
        # Those set aside by an earlier start count too: a restarted run must not quietly begin at step 0.
        if damaged or any(self.folder.glob("damaged-*")):
            raise RunError(f"no usable checkpoint in {self.folder}: all are damaged; remove it to start afresh")
        self._segments = []
        return None

    def newest_path(self) -> Path | None:
        """The folder of the newest checkpoint, unverified."""
        return next(iter(self._candidates()), None)

    def _candidates(self) -> list[Path]:
        """Checkpoint folders, newest first. A replaced one counts: its successor may never have arrived."""
        try:
            names = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise RunError(f"cannot read {self.folder}: {reason(error)}") from error
        paths = [self.folder / name for name in names if re.fullmatch(r"(replaced-)?step-\d+", name)]
        return sorted(paths, key=lambda path: (_step_of(path), path.name.startswith("step-")), reverse=True)

    def _continued(self, new: Segment | None, keep_from: int) -> list[dict]:
        """The known segments still in use, up to where `new` begins."""
        entries = [entry for entry in self._segments
                   if entry["last"] > keep_from and (new is None or entry["first"] < new.first)]
        if new is not None and entries and entries[-1]["last"] != new.first:
            raise ValueError(f"replay rows from {new.first} do not continue those up to {entries[-1]['last']}")
        return entries

    def _add_rows(self, segment: Segment, temporary: Path) -> dict:
        """Writes a segment file; not over an old one of that name, since the old one's checkpoint may be needed."""
        stem = f"rows-{segment.first:09d}-{segment.last:09d}"
        entry = _write(temporary / f"{stem}.npz", _pack(segment.arrays))
        name = f"{stem}-{entry['sha256'][:16]}.npz" if (self._replay / entry["file"]).exists() else entry["file"]
        os.replace(temporary / entry["file"], self._replay / name)
        _sync_folder(self._replay)
        return {**entry, "file": name, "first": segment.first, "last": segment.last}

    def _put_in_place(self, temporary: Path, target: Path) -> None:
        if target.exists():  # one folder cannot be renamed over another
            replaced = self.folder / f"replaced-{target.name}"
            _remove_folder(replaced)
            os.rename(target, replaced)
        os.rename(temporary, target)
        _sync_folder(self.folder)

    def _discard(self, temporary: Path, segments: list[dict]) -> None:
        """Removes what a failed save wrote; the rows too, unless the checkpoint they belong to is in place."""
        with contextlib.suppress(OSError):
            for entry in segments if temporary.exists() else []:
                if entry not in self._segments:
                    (self._replay / entry["file"]).unlink()
        shutil.rmtree(temporary, ignore_errors=True)

    def _clean_up(self) -> None:
        """Removes all but the newest whole checkpoints, the rows none of them needs, and leftover temporaries."""
        kept: dict[int, Path] = {}
        needed = set()
        try:
            for path in self._candidates():
                if len(kept) < KEPT and _step_of(path) not in kept and (manifest := _manifest_or_none(path)):
                    kept[_step_of(path)] = path
                    needed.update(entry["file"] for entry in manifest["segments"])
                else:
                    _remove_folder(path)
            for path in self._replay.iterdir():
                if path.name not in needed:
                    path.unlink()
            for path in self.folder.glob(f"{TEMPORARY}*"):
                shutil.rmtree(path)
        except OSError as error:
            self._warn(f"warning: cannot remove old files in {self.folder}: {reason(error)}")

    def _set_aside(self, path: Path, damage: _Damaged) -> None:
        aside = self.folder / f"damaged-{path.name}"
        try:
            _remove_folder(aside)
            os.rename(path, aside)
            outcome = f"renamed to {aside.name}"
        except OSError as error:  # reading from a read-only place is fine
            outcome = f"left there: {reason(error)}"
        self._warn(f"warning: checkpoint {path} is damaged ({damage}); {outcome}")


def atomic_write(path: Path, data: bytes) -> None:
    """Makes the file hold `data`; where that fails (RunError) or is cut short, the file stays as it was."""
    temporary = path.with_name(TEMPORARY + path.name)
    try:
        _write(temporary, data)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise RunError(f"cannot write {path}: {reason(error)}") from error


def ensure_writable(folder: Path) -> None:
    """Makes the folder and tries to write in it; RunError where that fails."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(4096))
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Why the file system refused, in words."""
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return "a file is where a folder should be"
    return error.strerror or str(error)


class _Damaged(Exception):
    """A checkpoint is not what was saved; the message says in which part."""


def _step_of(path: Path) -> int:
    return int(path.name.rpartition("-")[2])


def _remove_folder(path: Path) -> None:
    """Takes away the name first, so that a half-removed checkpoint is never taken for one."""
    if path.exists():
        doomed = path.with_name(f"{TEMPORARY}doomed-{path.name}")
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(path, doomed)
        shutil.rmtree(doomed)


def _write(path: Path, data: bytes) -> dict[str, Any]:
    """Writes a file through to the disk; returns what the manifest says of it."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return {"file": path.name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _sync_folder(folder: Path) -> None:
    """Makes the names in a folder last, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except PermissionError as error:  # may well be sound: not to be passed over
        raise RunError(f"cannot read {path}: {reason(error)}") from error
    except OSError as error:
        raise _Damaged(f"{path.name}: {reason(error)}") from error


def _read_verified(folder: Path, entry: dict) -> bytes:
    """The content of a file that is as the manifest says."""
    data = _read(folder / entry["file"])
    if len(data) != entry["size"]:
        raise _Damaged(f"{entry['file']} has {len(data)} bytes instead of {entry['size']}")
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise _Damaged(f"{entry['file']} has a wrong checksum")
    return data


def _pack(arrays: dict[str, np.ndarray]) -> bytes:
    """What np.savez writes, for any names (those of its arguments too) and never with a pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            array = np.asarray(array)
            if array.dtype.kind == "V":
                raise TypeError(f"array {name}: {array.dtype} would not be read back as such")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return buffer.getvalue()


def _unpack(data: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _checksum(manifest: dict) -> str:
    return hashlib.sha256(json.dumps(manifest).encode()).hexdigest()


def _read_manifest(folder: Path) -> dict:
    try:
        manifest = json.loads(_read(folder / "manifest.json"))
        if manifest.pop("checksum") == _checksum(manifest):
            return manifest
    except (ValueError, KeyError, AttributeError, TypeError):
        pass  # bytes have changed, as below
    raise _Damaged("manifest.json is not as it was written")


def _read_checkpoint(folder: Path, replay: Path, manifest: dict) -> Checkpoint:
    if manifest["format"] != FORMAT:
        raise RunError(f"checkpoint {folder} has format {manifest['format']}; this version reads {FORMAT}")
    arrays = _unpack(_read_verified(folder, manifest["state"]))
    blobs = {name: _read_verified(folder, entry) for name, entry in manifest["blobs"].items()}
    segments = [Segment(entry["first"], entry["last"], _unpack(_read_verified(replay, entry)))
                for entry in manifest["segments"]]
    return Checkpoint(manifest["step"], arrays, blobs, manifest["info"], segments)
