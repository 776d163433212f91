"""What can be said of the image and of the compose file without building or starting anything.

docker/check.sh builds the image and uses it.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from virel_tf.cli import parse_config

ROOT = Path(__file__).parent.parent
DEVICES = ("cpu", "cuda")


def pinned(name: str) -> dict[str, str]:
    """Package -> version in a lock file, the same for every Python."""
    text = (ROOT / "docker" / f"requirements-{name}.txt").read_text()
    entries = re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==(\S+)", text, re.MULTILINE)
    versions = dict(entries)
    assert len(versions) == len(entries), (
        "a package with two versions: what is checked may not be what is shipped"
    )
    return versions


def required(field: str = "install_requires=") -> set[str]:
    """The packages that a list in setup.py names, other than those of Pythons before the image's."""
    block = re.search(
        rf"{field} ?\[(.*?)\]", (ROOT / "setup.py").read_text().replace("[mujoco]", ""), re.DOTALL
    )
    return set(re.findall(r'f?"([a-zA-Z][\w-]*)(?![^"\n]*python_version)', block[1]))


@pytest.mark.parametrize("device", DEVICES)
def test_everything_required_is_pinned(device):
    assert {"tensorflow", "gymnasium", "mujoco", "absl-py"} <= required() <= set(pinned(device))


@pytest.mark.parametrize("name", [*DEVICES, "test"])
def test_every_package_has_hashes_and_no_source_is_named(name):
    text = (ROOT / "docker" / f"requirements-{name}.txt").read_text()
    for requirement in re.split(r"\n(?=[a-zA-Z])", text.strip()):
        assert "==" in requirement.splitlines()[0] and "--hash=sha256:" in requirement, (
            requirement.splitlines()[0]
        )
    assert "://" not in text


def test_the_images_differ_in_the_cuda_libraries_alone():
    cpu, cuda = (pinned(device) for device in DEVICES)
    assert {
        name: version for name, version in cuda.items() if not name.startswith("nvidia-")
    } == cpu
    assert {"nvidia-cudnn-cu12", "nvidia-cublas-cu12"} <= set(cuda) - set(cpu)


def test_what_is_tested_is_what_is_shipped():
    assert pinned("cpu").items() <= pinned("test").items()
    assert {"pytest", "ray"} <= required('"test":') <= set(pinned("test"))


def test_the_image_runs_the_command_as_somebody_who_is_not_root():
    last_stage = (ROOT / "docker" / "Dockerfile").read_text().split("\nFROM ")[-1]
    assert 'ENTRYPOINT ["virel-tf"]' in last_stage
    assert re.search(r"^USER (?!root)\w+$", last_stage, re.MULTILINE)


def test_the_test_stage_has_what_the_tests_read_and_ask():
    stage = (ROOT / "docker" / "Dockerfile").read_text().split(" AS test\n")[1].split("\nFROM ")[0]
    assert {"docker", "tests"} <= set(re.findall(r"^COPY (\w+) \1$", stage, re.MULTILINE))
    for program in re.findall(r"^RUN pytest .*-m slow (.*)$", stage, re.MULTILINE)[0].split():
        assert "mark.slow" in (ROOT / program).read_text()


def services(**settings: str) -> dict[str, dict]:
    """The services of the compose file under these settings of the environment."""
    text = (ROOT / "docker" / "compose.yaml").read_text()
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda match: settings.get(match[1], match[2]), text)
    assert "$" not in text, "a variable without a default, or one written differently"
    return yaml.safe_load(text)["services"]


def mount(service: dict) -> tuple[str, str, str]:
    """The folder on the host, the folder inside and the mode of a service's only volume."""
    (volume,) = service["volumes"]
    host, inside, mode = re.fullmatch(r"([^:]+):([^:]+)(:ro)?", volume).groups()
    return host, inside, mode or ":rw"


SETTINGS = [
    {},
    {
        "TASK": "Hopper-v4",
        "VARIANT": "sac",
        "STEPS": "3e5",
        "RUNS": "/somewhere/runs",
        "OWNER": "7:8",
    },
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_compose_trains_what_it_is_asked_for(settings):
    train = services(**settings)["train"]
    config = parse_config(shlex.split(train["command"]))
    assert config.env == settings.get("TASK", "InvertedPendulum-v4")
    assert config.variant == settings.get("VARIANT", "beta")
    assert config.total_steps == float(settings.get("STEPS", 1e6))
    assert train["user"] == settings.get("OWNER", "1000:1000")


@pytest.mark.parametrize("settings", SETTINGS)
def test_compose_watches_and_serves_the_folder_that_is_trained_into(settings):
    train, tensorboard, serving = (
        services(**settings)[name] for name in ("train", "tensorboard", "serving")
    )
    assert {mount(service)[0] for service in (train, tensorboard, serving)} == {
        settings.get("RUNS", "../runs")
    }
    assert [mount(service)[2] for service in (train, tensorboard, serving)] == [":rw", ":ro", ":ro"]
    run = Path(parse_config(shlex.split(train["command"])).run_dir).relative_to(mount(train)[1])
    assert f"--logdir={mount(tensorboard)[1]}" in tensorboard["entrypoint"]
    assert (
        f"--model_base_path={Path(mount(serving)[1]) / run / 'saved_model' / 'best'}"
        in serving["command"].split()
    )


def test_compose_builds_this_image_and_opens_the_ports_of_the_docs():
    train, tensorboard, serving = (services()[name] for name in ("train", "tensorboard", "serving"))
    context = ROOT / "docker" / train["build"]["context"]
    dockerfile = (context / train["build"]["dockerfile"]).read_text()
    assert train["image"] == tensorboard["image"] and context.samefile(ROOT)
    assert set(train["build"]["args"]) <= set(re.findall(r"^ARG (\w+)", dockerfile, re.MULTILINE))
    assert f"VOLUME {mount(train)[1]}\n" in dockerfile
    assert tensorboard["entrypoint"][0] in pinned("cpu")
    assert tensorboard["ports"] == ["6006:6006"] and serving["ports"] == ["8500:8500", "8501:8501"]


def test_compose_without_a_gpu_asks_for_none():
    class Loader(yaml.SafeLoader):
        """Knows the tag by which a compose file takes back what another one set."""

    Loader.add_constructor("!reset", lambda loader, node: "reset")
    other = yaml.load((ROOT / "docker" / "compose.cpu.yaml").read_text(), Loader)["services"]
    asking = {
        name for name, service in services().items() if "nvidia" in str(service.get("deploy"))
    }
    assert (
        asking
        == {"train"}
        == {name for name, service in other.items() if service["deploy"] == "reset"}
    )
    assert other["train"]["build"]["args"]["DEVICE"] == "cpu"
