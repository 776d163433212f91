"""Checkpoints: what goes in comes out, and damage is noticed.

Neither a kill nor a full disk loses the last one.
"""

from __future__ import annotations

import builtins
import errno
import os
from pathlib import Path

import numpy as np
import pytest
from saved_checkpoints import ROWS, check, names, rows, save

from virel_tf import files
from virel_tf.errors import RunError
from virel_tf.files import atomic_write, ensure_writable
from virel_tf.run_folder import checkpoints as module
from virel_tf.run_folder.checkpoints import CheckpointStore, read_arrays


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def refusing(code: int):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path, warnings) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoints", warnings.append)


def test_what_is_saved_is_loaded(store):
    assert store.load_newest() is None and store.newest_path() is None
    arrays = {
        "a/b:0": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "a": np.array(3.5),
        "empty": np.zeros((0, 4)),
        "flags": np.array([True, False]),
        "big": np.array([2**63], np.uint64),
        "nan": np.array([np.nan]),
    }
    info = {
        "rng": 2**100,
        "epsilon": 0.1 + 0.2,
        "nothing": None,
        "nan": float("inf"),
        "text": "überall",
    }
    blobs = {"env/0": bytes(range(256)), "..": b"", "state.npz": b"x"}
    path = store.save(7, arrays, blobs, info, None, 0)
    loaded = CheckpointStore(store.folder).load_newest()
    assert path == store.newest_path() == store.folder / "step-000000007"
    assert (loaded.step, loaded.blobs, loaded.info, loaded.segments) == (7, blobs, info, [])
    assert set(loaded.arrays) == set(arrays)
    for name, array in arrays.items():
        assert loaded.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded.arrays[name], array)


@pytest.mark.parametrize("array", [np.array([{}]), np.zeros(2, "V2")], ids=["object", "void"])
def test_arrays_that_would_not_come_back_are_refused(store, array):
    with pytest.raises((TypeError, ValueError)):
        store.save(1, {"x": array}, {}, {}, None, 0)
    assert store.load_newest() is None


def test_rows_are_written_once_and_shared(store):
    save(store, 1)
    first = store.folder / "replay" / "rows-000000000-000000010.npz"
    before = first.stat()
    for step in (2, 3):
        save(store, step)
    after = first.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert len(names(first.parent)) == 3
    check(store, 3)


def test_a_resumed_run_continues_the_list_of_rows(store):
    save(store, 1)
    save(store, 2)
    resumed = CheckpointStore(store.folder)
    resumed.load_newest()
    save(resumed, 3)
    check(CheckpointStore(store.folder), 3)


def test_two_checkpoints_and_their_rows_are_kept(store):
    (store.folder / ".tmp-step-000000099").mkdir(parents=True)
    for step in range(1, 7):
        save(store, step, keep_from=max(0, (step - 2) * ROWS))
    assert names(store.folder) == ["replay", "step-000000005", "step-000000006"]
    # Step 6 needs the rows from 40 on, step 5 those from 30 on.
    assert [name[:14] for name in names(store.folder / "replay")] == [
        f"rows-{n:09d}" for n in (30, 40, 50)
    ]
    check(store, 6, first=40)


def test_rows_partly_overwritten_are_still_needed(store):
    save(store, 1)
    save(store, 2, keep_from=9)
    check(store, 2, first=0)
    save(store, 3, keep_from=10)
    check(store, 3, first=10)


def test_a_gap_in_the_rows_is_refused_and_none_is_fine(store):
    save(store, 1)
    with pytest.raises(ValueError, match="rows from 20 do not continue those up to 10"):
        save(store, 3)
    store.save(2, {}, {}, {}, None, 0)
    assert [(segment.first, segment.last) for segment in store.load_newest().segments] == [(0, 10)]


def damage_truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def damage_flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize(
    "file", ["manifest.json", "state.npz", "env%2F0.bin", "../replay/rows-000000020-000000030.npz"]
)
@pytest.mark.parametrize("damage", [damage_truncate, damage_flip, os.unlink])
def test_damage_is_told_and_the_one_before_is_used(store, warnings, file, damage):
    for step in (1, 2, 3):
        save(store, step)
    newest = store.newest_path()
    damage(newest / file)
    check(store, 2)
    assert len(warnings) == 1 and "\n" not in warnings[0]
    assert str(newest) in warnings[0] and Path(file).name in warnings[0]
    assert names(store.folder) == ["damaged-step-000000003", "replay", "step-000000002"]
    save(store, 3, factor=2.0)  # trained anew, with other rows under the same name
    check(CheckpointStore(store.folder), 3, factor=2.0)
    assert len(names(store.folder / "replay")) == 3


def test_any_changed_byte_of_the_manifest_is_noticed_or_harmless(store, warnings):
    save(store, 1)
    path = store.newest_path() / "manifest.json"
    whole = path.read_bytes()
    sound = module._read_manifest(path.parent)
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        try:
            assert module._read_manifest(path.parent) == sound
        except module._Damaged:
            continue


def test_the_arrays_of_each_kept_checkpoint_can_be_read_and_nothing_is_set_aside(store):
    for step in (1, 2, 3):
        save(store, step)
    assert {step: int(read_arrays(path)["file"]) for step, path in store.kept().items()} == {
        2: 2,
        3: 3,
    }
    damage_flip(store.kept()[3] / "state.npz")
    before = everything(store.folder)
    with pytest.raises(RunError, match="step-000000003 is damaged .state.npz has a wrong checksum"):
        read_arrays(store.kept()[3])
    assert everything(store.folder) == before


def test_no_usable_checkpoint_is_an_error_every_time(store, capsys):
    for step in (1, 2):
        save(store, step)
        damage_flip(store.folder / f"step-{step:09d}" / "state.npz")
    for _ in range(2):
        with pytest.raises(RunError, match="no usable checkpoint"):
            CheckpointStore(store.folder).load_newest()
    assert capsys.readouterr().err.count("\n") == 2  # each damage told once


def test_another_format_is_not_damage(store, monkeypatch):
    monkeypatch.setattr(module, "FORMAT", 99)
    save(store, 1)
    monkeypatch.undo()
    with pytest.raises(RunError, match="has format 99"):
        store.load_newest()
    assert names(store.folder) == ["replay", "step-000000001"]


def test_the_same_step_again_replaces(store):
    save(store, 1)
    save(store, 2)
    save(store, 2, factor=5.0)
    assert names(store.folder) == ["replay", "step-000000001", "step-000000002"]
    assert len(names(store.folder / "replay")) == 2
    check(store, 2, factor=5.0)


def test_a_run_does_not_save_below_another_ones_checkpoints(store):
    save(store, 5)
    with pytest.raises(RunError, match="step-000000005 of another run"):
        save(CheckpointStore(store.folder), 1)
    assert names(store.folder) == ["replay", "step-000000005"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize(
    "file", ["rows-000000020-000000030.npz", "state.npz", "env%2F0.bin", "manifest.json"]
)
def test_a_full_disk_leaves_the_earlier_checkpoint_and_no_litter(store, monkeypatch, file):
    save(store, 1)
    save(store, 2)
    before = everything(store.folder)

    def full(path, *arguments):
        return builtins.open("/dev/full" if Path(path).name == file else path, *arguments)

    monkeypatch.setattr(files, "open", full, raising=False)
    with pytest.raises(RunError) as told:
        save(store, 3)
    monkeypatch.undo()
    line = str(told.value)
    assert "\n" not in line and "step-000000003: No space left on device" in line
    assert line.endswith(f"{store.folder / 'step-000000002'} is still whole")
    assert everything(store.folder) == before and names(store.folder)[0] == "replay"
    check(CheckpointStore(store.folder), 2)
    save(store, 3)  # room again: the same store goes on
    check(store, 3)


def test_a_write_cut_short_by_the_system(store):
    resource = pytest.importorskip("resource")
    save(store, 1)
    before = everything(store.folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(RunError, match="File too large"):
            store.save(2, {"x": np.zeros(10_000)}, {}, {}, rows(10, 20), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert everything(store.folder) == before
    check(store, 1)


def test_nothing_saved_yet_and_no_room(store, monkeypatch):
    monkeypatch.setattr(os, "fsync", refusing(errno.EROFS))
    with pytest.raises(RunError, match="Read-only file system; there is no earlier checkpoint"):
        save(store, 1)
    assert names(store.folder) == ["replay"]


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RunError, match="cannot write to .*: Not a directory"):
            ensure_writable(folder)
    with pytest.raises(RunError, match="Not a directory"):
        save(CheckpointStore(tmp_path / "file"), 1)
    with pytest.raises(RunError, match="cannot write .*: Not a directory"):
        atomic_write(tmp_path / "file" / "x", b"")
    assert (tmp_path / "file").read_text() == "mine"


def test_ensure_writable_makes_the_folder_and_leaves_nothing_in_it(tmp_path):
    for _ in range(2):
        ensure_writable(tmp_path / "a" / "b")
    assert names(tmp_path / "a" / "b") == []


def test_atomic_write_replaces_or_leaves_alone(tmp_path, monkeypatch):
    path = tmp_path / "x"
    atomic_write(path, b"old")
    monkeypatch.setattr(os, "fsync", refusing(errno.ENOSPC))
    with pytest.raises(RunError, match="cannot write .*x: No space left on device"):
        atomic_write(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old" and names(tmp_path) == ["x"]
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
