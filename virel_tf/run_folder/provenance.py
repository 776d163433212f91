"""Which versions of what made a file.

Said in a run's versions.json and in an export's metadata.json.
"""

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
    """Of Python, this package and those whose numbers a run depends on."""
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

    None where neither is known.
    """
    package = Path(__file__).resolve().parent.parent
    try:
        # An installed package may lie in somebody else's repository: only a tree that tracks it
        # tells about it.
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
    """Notes in versions.json what the run is made with from `step` on.

    Only where that is not what it says already.
    """
    now = {"versions": versions(), "git_revision": git_revision()}
    # A part that began here or later has left nothing: the run goes on from the checkpoint at
    # `step`.
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
    return [part for part in parts if is_part(part)] if isinstance(parts, list) else []


def is_part(part: Any) -> bool:
    """Whether it has the form that `record_versions` gives one."""
    return (
        isinstance(part, dict)
        and isinstance(part.get("versions"), dict)
        and isinstance(part.get("from_step"), int)
    )
