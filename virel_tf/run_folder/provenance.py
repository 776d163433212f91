"""Versions of packages and of the source, for versions.json and an export's metadata.json."""

from __future__ import annotations

import json
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from virel_tf.files import atomic_write
from virel_tf.run_folder.paths import VERSIONS
from virel_tf.version import __version__

PACKAGES = ("tensorflow", "keras", "tensorflow-probability", "gymnasium", "mujoco", "numpy")


def versions() -> dict[str, str]:
    """Versions of Python, this package and those that a run's numbers depend on."""
    found = {"python": platform.python_version(), "virel_tf": __version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_revision() -> str | None:
    """The commit of the source tree this package runs from or was built from.

    It ends with -dirty where the tree was changed since.

    None where there is neither.
    """
    package = Path(__file__).resolve().parent.parent
    try:
        # An installed package may be inside another repository, which does not track it.
        subprocess.run(
            ["git", "ls-files", "--error-unmatch", "__init__.py"],
            cwd=package,
            check=True,
            capture_output=True,
        )
        describe = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(
            describe, cwd=package, check=True, capture_output=True, text=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        built = package / "revision.txt"  # written by setup.py
        return built.read_text() or None if built.is_file() else None


def record_versions(run_dir: Path, step: int) -> None:
    """Adds the versions used from `step` on to versions.json, where they differ from the last."""
    now = {"versions": versions(), "git_revision": git_revision()}
    # Drops parts that began here or later: the run resumes from the checkpoint at `step`.
    parts = [part for part in read_versions(run_dir) if part["from_step"] < step]
    if not parts or any(parts[-1].get(name) != value for name, value in now.items()):
        parts.append({"from_step": step, **now})
        atomic_write(run_dir / VERSIONS, (json.dumps(parts, indent=2) + "\n").encode())


def read_versions(run_dir: Path) -> list[dict[str, Any]]:
    """The parts of a run, oldest first; none where they were not recorded or cannot be read."""
    try:
        parts = json.loads((run_dir / VERSIONS).read_text())
    except (OSError, ValueError):
        return []
    return known_parts(parts)


def known_parts(parts: Any) -> list[dict[str, Any]]:
    """Those of the parts that have the form `record_versions` gives them; none of anything else."""
    return [part for part in parts if is_part(part)] if isinstance(parts, list) else []


def is_part(part: Any) -> bool:
    """Whether it has the form that `record_versions` gives one."""
    return (
        isinstance(part, dict)
        and isinstance(part.get("versions"), dict)
        and isinstance(part.get("from_step"), int)
    )
