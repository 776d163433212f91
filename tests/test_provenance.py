"""versions.json: what made a run, part by part."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import virel_tf
from virel_tf.presets import presets_file
from virel_tf.run_folder import provenance
from virel_tf.run_folder.provenance import read_versions, record_versions


def test_a_run_going_on_with_other_versions_adds_a_part(tmp_path, monkeypatch):
    record_versions(tmp_path, 0)
    record_versions(tmp_path, 5000)  # the same versions: nothing to add
    monkeypatch.setattr(provenance, "git_revision", lambda: "another")
    record_versions(tmp_path, 8000)
    monkeypatch.setattr(provenance, "git_revision", lambda: "a third")
    # killed before its first checkpoint, the part above left nothing
    record_versions(tmp_path, 8000)
    parts = json.loads((tmp_path / "versions.json").read_text())
    assert [part["from_step"] for part in parts] == [0, 8000]
    assert parts[0]["versions"]["virel_tf"] == virel_tf.__version__
    assert parts[0]["versions"]["numpy"] == np.__version__
    assert set(parts[0]["versions"]) == {
        "python",
        "virel_tf",
        "tensorflow",
        "keras",
        "tensorflow-probability",
        "gymnasium",
        "mujoco",
        "numpy",
    }
    assert parts[1]["git_revision"] == "a third"


def built_revision(tree: Path, **environment: str) -> str:
    """What a package built from the tree, and run elsewhere, says that it was made of."""
    for command in (
        [sys.executable, "setup.py", "-q", "build_py", "--build-lib=built"],
        [
            sys.executable,
            "-c",
            "from virel_tf.run_folder.provenance import git_revision; print(git_revision())",
        ],
    ):
        done = subprocess.run(
            command,
            cwd=tree if "setup.py" in command else tree / "built",
            check=True,
            text=True,
            capture_output=True,
            env=os.environ | environment | {"PYTHONPATH": ""},
        )
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path) -> Path:
    """A copy of what is built: in the image the tests run without the source tree."""
    shutil.copytree(
        Path(virel_tf.__file__).parent,
        tmp_path / "virel_tf",
        ignore=shutil.ignore_patterns("__pycache__", "configs", "revision.txt"),
    )
    shutil.copytree(presets_file().parent, tmp_path / "configs")
    shutil.copy(Path(__file__).parent.parent / "setup.py", tmp_path)
    (tmp_path / "README.md").touch()
    return tmp_path


def test_a_built_package_knows_its_commit_from_the_environment(tree):
    assert built_revision(tree, REVISION="abc123") == "abc123"
    assert built_revision(tree, REVISION="") == "None"
    assert not (tree / "virel_tf" / "revision.txt").exists()


@pytest.mark.skipif(not shutil.which("git"), reason="there is no git")
def test_a_built_package_knows_its_commit_from_git(tree):
    git = ["git", "-c", "user.name=a", "-c", "user.email=b"]
    for words in (["init", "-q"], ["add", "setup.py", "virel_tf"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=tree, check=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, text=True
    ).stdout.strip()
    assert built_revision(tree, REVISION="not asked") == commit
    with open(tree / "setup.py", "a") as file:
        file.write("# changed\n")
    assert built_revision(tree) == f"{commit}-dirty"


def test_versions_that_cannot_be_read_are_none(tmp_path):
    assert read_versions(tmp_path) == []
    (tmp_path / "versions.json").write_text("[{")
    assert read_versions(tmp_path) == []
    for other in (
        '{"not": "a list"}',
        '[{"from_step": 0, "versions": []}]',
        '[{"versions": {}, "from_step": null}]',
    ):
        (tmp_path / "versions.json").write_text(other)
        assert read_versions(tmp_path) == []
