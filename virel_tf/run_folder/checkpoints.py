"""Checkpoints on disk, flushed under a temporary name and then renamed.

So no kill or power cut leaves a partial one.

folder/step-000012000/manifest.json    step, info, and size and SHA-256 of every file below
                      state.npz        the arrays
                      NAME.bin         one file per blob
folder/replay/rows-FIRST-LAST.npz      rows of the replay log; written once, shared by successive
checkpoints
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from virel_tf.errors import RunError
from virel_tf.files import TEMPORARY, sync_folder, write_through

FORMAT = 2
KEPT = 2  # whole checkpoints left after a save


class Segment(NamedTuple):
    """Rows [first, last) of the replay log."""

    first: int
    last: int
    arrays: dict[str, np.ndarray]


class Checkpoint(NamedTuple):
    """What was saved: arrays, bytes, JSON-able info, and the replay rows still in use.

    Rows are oldest first.
    """

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
        self._segments: list[
            dict[str, Any]
        ] = []  # manifest entries of the checkpoint last loaded or saved

    def save(
        self,
        step: int,
        arrays: dict[str, np.ndarray],
        blobs: dict[str, bytes],
        info: dict[str, Any],
        new_segment: Segment | None,
        keep_from: int,
    ) -> Path:
        """Adds a checkpoint, then removes those it replaces.

        After a RunError the earlier ones are unchanged. `new_segment`: the replay rows since the
        last save or load. Rows before `keep_from` are no longer needed.
        """
        newest = self.newest_path()
        if newest and _step_of(newest) > step:
            raise RunError(
                f"cannot save step {step} in {self.folder}: {newest.name} of another run is there"
            )
        segments = self._continued(new_segment, keep_from)
        target = self.folder / f"step-{step:09d}"
        temporary = self.folder / (TEMPORARY + target.name)
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            self._replay.mkdir(parents=True, exist_ok=True)
            temporary.mkdir()
            if new_segment is not None:
                segments.append(self._write_rows(new_segment, temporary))
            state = _write(temporary / "state.npz", _pack(arrays))
            files = {
                name: _write(temporary / f"{quote(name, safe='')}.bin", blob)
                for name, blob in blobs.items()
            }
            manifest = dict(
                format=FORMAT, step=step, info=info, state=state, blobs=files, segments=segments
            )
            manifest["checksum"] = _checksum(manifest)
            _write(temporary / "manifest.json", json.dumps(manifest, indent=1).encode())
            self._put_in_place(temporary, target)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            left = f"{newest} is still whole" if newest else "there is no earlier checkpoint"
            raise RunError(f"cannot write checkpoint {target}: {error.strerror}; {left}") from error
        self._segments = segments
        self._clean_up()
        return target

    def load_newest(self) -> Checkpoint | None:
        """The newest whole checkpoint.

        None where nothing was ever saved. Damaged ones are renamed, with a warning.
        """
        for path in self._candidates():
            try:
                manifest = _read_manifest(path)
                self._segments = manifest["segments"]
                return _read_checkpoint(path, self._replay, manifest)
            except _Damaged as damage:
                self._set_aside(path, damage)
        self._segments = []
        # Those renamed by an earlier start count too: a resumed run must not silently begin at
        # step 0.
        if self.newest_path() or any(self.folder.glob("damaged-*")):
            raise RunError(
                f"no usable checkpoint in {self.folder}: all are damaged; remove"
                f" {self.folder.parent} to start from scratch"
            )
        return None

    def newest_path(self) -> Path | None:
        """The folder of the newest checkpoint, unverified."""
        return next(iter(self._candidates()), None)

    def kept(self) -> dict[int, Path]:
        """Step -> folder of every checkpoint, unverified, oldest first."""
        return {_step_of(path): path for path in reversed(self._candidates())}

    def _candidates(self) -> list[Path]:
        """Checkpoint folders, newest first.

        A replaced one counts: its successor may never have arrived.
        """
        try:
            names = os.listdir(self.folder) if self.folder.exists() else []
        except OSError as error:
            raise RunError(f"cannot read {self.folder}: {error.strerror}") from error
        paths = [
            self.folder / name for name in names if re.fullmatch(r"(replaced-)?step-\d+", name)
        ]
        return sorted(
            paths, key=lambda path: (_step_of(path), path.name.startswith("step-")), reverse=True
        )

    def _continued(self, new: Segment | None, keep_from: int) -> list[dict[str, Any]]:
        """The saved segments still in use, up to where `new` begins."""
        entries = [
            entry
            for entry in self._segments
            if entry["last"] > keep_from and (new is None or entry["first"] < new.first)
        ]
        if new is not None and entries and entries[-1]["last"] != new.first:
            raise ValueError(
                f"replay rows from {new.first} do not continue those up to {entries[-1]['last']}"
            )
        return entries

    def _write_rows(self, segment: Segment, folder: Path) -> dict[str, Any]:
        """Writes a segment file.

        Does not overwrite one of that name, which an earlier checkpoint may need.
        """
        name = f"rows-{segment.first:09d}-{segment.last:09d}.npz"
        data = _pack(segment.arrays)
        if (self._replay / name).exists():
            name = name.replace(".npz", f"-{hashlib.sha256(data).hexdigest()[:16]}.npz")
        return {"first": segment.first, "last": segment.last, **_write(folder / name, data)}

    def _put_in_place(self, temporary: Path, target: Path) -> None:
        """Renames a complete checkpoint. All its data have been written by now."""
        for rows in temporary.glob("rows-*.npz"):
            os.replace(rows, self._replay / rows.name)
        sync_folder(self._replay)
        sync_folder(temporary)
        if target.exists():  # one folder cannot be renamed over another
            replaced = self.folder / f"replaced-{target.name}"
            _remove_folder(replaced)
            os.rename(target, replaced)
        os.rename(temporary, target)
        sync_folder(self.folder)

    def _clean_up(self) -> None:
        """Removes all but the newest whole checkpoints and the rows they need.

        Leftover temporaries go too.
        """
        kept: dict[int, dict[str, Any]] = {}
        try:
            for path in self._candidates():
                manifest = None
                with contextlib.suppress(_Damaged):
                    manifest = _read_manifest(path)
                if manifest and _step_of(path) not in kept and len(kept) < KEPT:
                    kept[_step_of(path)] = manifest
                else:
                    _remove_folder(path)
            needed = {entry["file"] for manifest in kept.values() for entry in manifest["segments"]}
            for path in self._replay.glob("rows-*.npz"):
                if path.name not in needed:
                    path.unlink()
        except OSError as error:
            self._warn(f"warning: cannot remove old files in {self.folder}: {error.strerror}")
        for path in self.folder.glob(f"{TEMPORARY}*"):
            shutil.rmtree(path, ignore_errors=True)

    def _set_aside(self, path: Path, damage: _Damaged) -> None:
        aside = self.folder / f"damaged-{path.name}"
        try:
            _remove_folder(aside)
            os.rename(path, aside)
            outcome = f"renamed to {aside.name}"
        except OSError as error:  # reading from a read-only place is fine
            outcome = f"left there: {error.strerror}"
        self._warn(f"warning: checkpoint {path} is damaged ({damage}); {outcome}")


class _Damaged(Exception):
    """A checkpoint is not what was saved; the message says in which part."""


def _step_of(path: Path) -> int:
    return int(path.name.rpartition("-")[2])


def _remove_folder(path: Path) -> None:
    """Renames it first, so that a partly removed checkpoint is never read as one."""
    if path.exists():
        doomed = path.with_name(f"{TEMPORARY}doomed-{path.name}")
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(path, doomed)
        shutil.rmtree(doomed)


def _write(path: Path, data: bytes) -> dict[str, Any]:
    """Writes a file through to the disk; returns what the manifest says of it."""
    write_through(path, data)
    return {"file": path.name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _read(path: Path, entry: dict[str, Any] | None = None) -> bytes:
    """The content of a file, which is as the manifest's entry says."""
    try:
        data = path.read_bytes()
    except PermissionError as error:  # it may be intact, so it is not skipped
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    except OSError as error:
        raise _Damaged(f"{path.name}: {error.strerror}") from error
    if entry and len(data) != entry["size"]:
        raise _Damaged(f"{path.name} has {len(data)} bytes instead of {entry['size']}")
    if entry and hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise _Damaged(f"{path.name} has a wrong checksum")
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
    return dict(np.load(io.BytesIO(data), allow_pickle=False))


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest).encode()).hexdigest()


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(_read(folder / "manifest.json"))
        if manifest.pop("checksum") == _checksum(manifest):
            return manifest
    except (ValueError, KeyError, AttributeError, TypeError):
        pass  # bytes have changed, as below
    raise _Damaged("manifest.json is not as it was written")


def read_arrays(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint without changing it; RunError where it is damaged."""
    try:
        return _read_arrays(folder, _read_manifest(folder))
    except _Damaged as damage:
        raise RunError(f"checkpoint {folder} is damaged ({damage})") from None


def read_info(folder: Path) -> dict[str, Any]:
    """The info of a checkpoint; RunError where it is damaged."""
    try:
        return _read_manifest(folder)["info"]
    except _Damaged as damage:
        raise RunError(f"checkpoint {folder} is damaged ({damage})") from None


def _read_arrays(folder: Path, manifest: dict[str, Any]) -> dict[str, np.ndarray]:
    if manifest["format"] != FORMAT:
        raise RunError(
            f"checkpoint {folder} has format {manifest['format']}; this version reads {FORMAT}"
        )
    return _unpack(_read(folder / "state.npz", manifest["state"]))


def _read_checkpoint(folder: Path, replay: Path, manifest: dict[str, Any]) -> Checkpoint:
    arrays = _read_arrays(folder, manifest)
    blobs = {
        name: _read(folder / entry["file"], entry) for name, entry in manifest["blobs"].items()
    }
    segments = [
        Segment(entry["first"], entry["last"], _unpack(_read(replay / entry["file"], entry)))
        for entry in manifest["segments"]
    ]
    return Checkpoint(manifest["step"], arrays, blobs, manifest["info"], segments)
