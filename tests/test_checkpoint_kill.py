"""A process that dies while it saves, at every moment it can, leaves a whole checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from saved_checkpoints import ROWS, check, names, save

import virel_tf
from virel_tf.run_folder import checkpoints as module
from virel_tf.run_folder.checkpoints import CheckpointStore


@pytest.fixture
def warnings() -> list[str]:
    return []


def python(script: str, *arguments: object) -> subprocess.Popen:
    here, package = str(Path(__file__).parent), str(Path(virel_tf.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, package])}
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


# Forks a process per system call that changes the disk; each dies just before its own.
DIE_AT_EVERY_CALL = """
import os, shutil, signal, sys
from pathlib import Path
from saved_checkpoints import save
from virel_tf.run_folder.checkpoints import CheckpointStore

def attempt(folder, steps, factor, deadly):
    calls = iter(range(10_000))
    def dying(call):
        def wrapped(*arguments, **options):
            if next(calls) == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)
        return wrapped
    store = CheckpointStore(folder)
    store.load_newest()
    for name in ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir"):
        setattr(os, name, dying(getattr(os, name)))
    for step in steps:
        save(store, step, factor=factor)

base, factor = Path(sys.argv[1]), float(sys.argv[2])
steps = [int(step) for step in sys.argv[3].split(",")]
for deadly in range(10_000):
    folder = base / str(deadly)
    shutil.copytree(base / "before", folder)
    child = os.fork()
    if not child:
        attempt(folder, steps, factor, deadly)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
    print(deadly)
"""


@pytest.mark.parametrize("again", [False, True], ids=["new steps", "same step again"])
def test_killed_before_any_change_of_the_disk(tmp_path, warnings, again):
    store = CheckpointStore(tmp_path / "before")
    for step in (1, 2):
        save(store, step)
    if again:
        save(store, 2, factor=2.0)  # so that the list of rows holds a variant
    process = python(DIE_AT_EVERY_CALL, tmp_path, 3.0 if again else 1.0, "2" if again else "3,4")
    deaths = [int(line) for line in process.communicate()[0].split()]
    assert process.returncode == 0 and len(deaths) > 10
    seen = set()
    for death in deaths:
        left = CheckpointStore(tmp_path / str(death), warnings.append)
        for path in left._candidates():  # whatever looks like a checkpoint is one
            module._read_checkpoint(path, left.folder / "replay", module._read_manifest(path))
        loaded = left.load_newest()
        factor = float(loaded.arrays["policy/layer_0/kernel:0"][0, 0] / loaded.step)
        seen.add((loaded.step, factor))
        check(left, loaded.step, factor=factor)
        save(left, loaded.step + 1) if factor == 1.0 else save(left, loaded.step, factor=9.0)
        check(
            CheckpointStore(left.folder),
            loaded.step + (factor == 1.0),
            factor=1.0 if factor == 1.0 else 9.0,
        )
        assert all(name == "replay" or name.startswith("step-") for name in names(left.folder))
    assert seen == ({(2, 2.0), (2, 3.0)} if again else {(2, 1.0), (3, 1.0), (4, 1.0)})
    assert warnings == []


SAVE_FOR_EVER = """
import sys
from pathlib import Path
from saved_checkpoints import save
from virel_tf.run_folder.checkpoints import CheckpointStore

store = CheckpointStore(Path(sys.argv[1]))
loaded = store.load_newest()
for step in range(loaded.step + 1 if loaded else 1, 10**9):
    save(store, step, keep_from=max(0, (step - 5) * 10))
    print(step, flush=True)
"""


def test_killed_while_saving_for_ever(tmp_path, warnings):
    """Killed from outside and resumed, several times over."""
    store = CheckpointStore(tmp_path, warnings.append)
    for saves in (1, 2, 5, 9):
        process = python(SAVE_FOR_EVER, tmp_path)
        confirmed = [int(process.stdout.readline()) for _ in range(saves)][-1]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        step = store.load_newest().step
        assert step >= confirmed  # what was reported as saved is there
        check(store, step, first=max(0, (step - 5) * ROWS))
    assert warnings == []
