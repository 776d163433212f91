"""What the image installs: everything that setup.py asks for, each at one version, with hashes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DEVICES = ("cpu", "cuda")


def pinned(name: str) -> dict[str, str]:
    """Package -> version in a lock file; markers may give one package two versions."""
    text = (ROOT / "docker" / f"requirements-{name}.txt").read_text()
    return dict(re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==(\S+)", text, re.MULTILINE))


def required() -> set[str]:
    block = re.search(r"install_requires=\[(.*?)\]", (ROOT / "setup.py").read_text().replace("[mujoco]", ""), re.DOTALL)
    return set(re.findall(r'f?"([a-zA-Z][\w-]*)', block[1]))


@pytest.mark.parametrize("device", DEVICES)
def test_everything_required_is_pinned(device):
    assert {"tensorflow", "gymnasium", "mujoco", "absl-py"} <= required() <= set(pinned(device))


@pytest.mark.parametrize("name", [*DEVICES, "test"])
def test_every_package_has_hashes_and_no_source_is_named(name):
    text = (ROOT / "docker" / f"requirements-{name}.txt").read_text()
    for requirement in re.split(r"\n(?=[a-zA-Z])", text.strip()):
        assert "==" in requirement.splitlines()[0] and "--hash=sha256:" in requirement, requirement.splitlines()[0]
    assert "://" not in text


def test_the_images_differ_in_the_cuda_libraries_alone():
    cpu, cuda = (pinned(device) for device in DEVICES)
    assert {name: version for name, version in cuda.items() if not name.startswith("nvidia-")} == cpu
    assert {"nvidia-cudnn-cu12", "nvidia-cublas-cu12"} <= set(cuda) - set(cpu)


def test_the_image_runs_the_command_as_somebody_who_is_not_root():
    last_stage = (ROOT / "docker" / "Dockerfile").read_text().split("\nFROM ")[-1]
    assert 'ENTRYPOINT ["virel-tf"]' in last_stage
    assert re.search(r"^USER (?!root)\w+$", last_stage, re.MULTILINE)
