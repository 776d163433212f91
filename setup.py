"""Packaging; the settings of tools are in pyproject.toml."""

import os
import re
import subprocess
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
VERSION = re.search(
    r'__version__ = "(.+)"', (HERE / "virel_tf" / "version.py").read_text(encoding="utf-8")
)[1]
TENSORFLOW = (  # tested with 2.21; tf-keras is what tensorflow-probability needs beside Keras 3
    ">=2.19,<2.22"
)


class BuildWithRevision(build_py):
    """Notes in the built package which commit it is of.

    virel_tf/run_folder/provenance.py reads it where no git can be asked.
    """

    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # else the package stays in the source tree
            revision = git_revision() or os.environ.get("REVISION", "")
            Path(self.build_lib, "virel_tf", "revision.txt").write_text(revision)


def git_revision() -> str:
    """The commit of this source tree, with -dirty where it was changed since.

    Empty where git does not know it.
    """

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=HERE, check=True, capture_output=True, text=True
        ).stdout.strip()

    try:
        # the tree may lie in somebody else's repository
        git("ls-files", "--error-unmatch", "setup.py")
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return ""


setup(
    name="virel-tf",
    version=VERSION,
    description="Reinforcement learning as variational EM (VIREL) in TensorFlow",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="the virel_tf authors",
    license="MIT",
    python_requires=">=3.10,<3.14",
    packages=[*find_packages(include=["virel_tf", "virel_tf.*"]), "virel_tf.configs"],
    # configs/ stands beside the package in the source tree and goes inside it when installed.
    package_dir={"virel_tf": "virel_tf", "virel_tf.configs": "configs"},
    package_data={
        "virel_tf": ["py.typed"],
        "virel_tf.configs": ["presets.toml"],
        "virel_tf.reports": ["published.csv"],
    },
    install_requires=[
        f"tensorflow{TENSORFLOW}",
        f"tf-keras{TENSORFLOW}",
        "tensorflow-probability>=0.25,<0.26",
        "gymnasium[mujoco]>=1.1",
        "mujoco>=3",
        "numpy",
        "absl-py",
        "matplotlib",
        "tomli; python_version < '3.11'",
    ],
    extras_require={
        "test": [
            "pytest",
            "pytest-xdist",
            "hypothesis",
            "ruff",
            "mypy>=2.4,<3",
            "import-linter",
            "tensorboard",
            "psutil",
            "pyyaml",
            f"tensorflow-serving-api{TENSORFLOW}",
            "tf2onnx>=1.17",
            "onnxruntime",
            "ray>=2.40",
            # What the statistics are compared with; the arch it stands on does not import beside
            # pandas 3.
            "rliable>=1.2",
            "pandas<3",
        ],
        "cuda": [f"tensorflow[and-cuda]{TENSORFLOW}"],
        "video": ["imageio[ffmpeg]"],
        "plots": ["tensorboard"],
        "onnx": ["tf2onnx>=1.17"],
        # latex2mathml draws the equations; ruff formats the signatures.
        "docs": ["mkdocs-material>=9.5", "mkdocstrings[python]>=0.26", "latex2mathml", "ruff"],
        "ray": ["ray>=2.40"],
    },
    cmdclass={"build_py": BuildWithRevision},
    entry_points={"console_scripts": ["virel-tf=virel_tf.cli:main"]},
)
