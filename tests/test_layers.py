"""The layers of the package: imports only go down."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import virel_tf

PROJECT = Path(__file__).parent.parent
LINT = Path(sys.executable).with_name("lint-imports")


def lint(folder: Path) -> subprocess.CompletedProcess:
    """Checks the contracts of the project's configuration on the package in a folder."""
    return subprocess.run(
        [LINT, "--no-cache", f"--config={PROJECT / 'pyproject.toml'}"],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_imports_only_go_down():
    done = lint(PROJECT)
    assert done.returncode == 0, done.stdout


def test_an_import_that_goes_up_is_found(tmp_path):
    shutil.copytree(
        Path(virel_tf.__file__).parent,
        tmp_path / "virel_tf",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    with open(tmp_path / "virel_tf" / "objective" / "targets.py", "a") as file:
        file.write("\nimport virel_tf.train.run\n")
    done = lint(tmp_path)
    assert done.returncode != 0
    assert "virel_tf.objective.targets -> virel_tf.train.run" in done.stdout
