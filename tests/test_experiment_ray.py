"""An experiment on a cluster: what it asks of Ray, and what it makes of Ray's answers."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from scripted_pool import finish, recorded

from virel_tf.cli import main
from virel_tf.experiments.command import MAX_KILLS


class FakeRay:
    """A cluster of two machines on which tasks end at once, each with the result of a script."""

    class exceptions:  # noqa: N801 - Ray's name
        RayError = type("RayError", (Exception,), {})
        RayTaskError = type("RayTaskError", (RayError,), {})

    def __init__(self, *results: int | Exception) -> None:
        self.results, self.joined, self.tasks, self.shut_down = list(results), [], [], 0

    def init(self, address: str, **options) -> None:
        self.joined.append(address)

    def nodes(self) -> list[dict]:
        return [
            {"Alive": True, "Resources": {"CPU": 4.0}},
            {"Alive": True, "Resources": {"CPU": 2.0, "GPU": 1.0}},
            {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}},
        ]

    def remote(self, *arguments, **options) -> object:
        if options:  # ray.remote(num_cpus=...)(function)
            return lambda function: self
        self.tasks.append(arguments)  # function.options(name=...).remote(...)
        return object()

    def options(self, name: str) -> FakeRay:
        return self

    def wait(self, tasks: list, **options) -> tuple[list, list]:
        return tasks, []

    def get(self, task: object) -> int:
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    def shutdown(self) -> None:
        self.shut_down += 1


def ray_experiment(monkeypatch, ray: FakeRay, *flags: str) -> int:
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr("virel_tf.experiments.command.POLL_SECONDS", 0)
    return main(["experiment", "--envs=Hopper-v4", "--variants=virel", *flags])


def test_a_task_that_fails_or_is_lost_costs_the_others_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    broken = FakeRay.exceptions.RayTaskError()
    broken.cause = OSError("No space left")
    lost = [FakeRay.exceptions.RayError() for _ in range(MAX_KILLS)]
    ray = FakeRay(broken, *lost)
    assert (
        ray_experiment(
            monkeypatch, ray, "--seeds=2", "--jobs=1", "--ray_address=local", "--out=out"
        )
        == 1
    )
    assert recorded(tmp_path / "out") == {
        "Hopper-v4/virel/seed1": ("failed", "cannot be started: No space left"),
        "Hopper-v4/virel/seed2": (
            "failed",
            f"killed {MAX_KILLS} times in a row at the same checkpoint",
        ),
    }
    assert ray.joined == ["local"] and ray.shut_down == 1
    command, folder = ray.tasks[0]
    assert (
        folder == str(tmp_path / "out/Hopper-v4/virel/seed1") and f"--run_dir={folder}" in command
    )


@pytest.mark.parametrize(
    "flags, fits",
    [
        (["--cpus_per_run=4"], True),
        (["--cpus_per_run=5"], False),
        (["--cpus_per_run=2", "--gpus_per_run=0.5"], True),
        (["--cpus_per_run=4", "--gpus_per_run=0.5"], False),
    ],
)
def test_resources_that_no_machine_has_are_told(tmp_path, monkeypatch, capsys, flags, fits):
    message = "(there are: 4 and 0, 2 and 1)"
    finish(tmp_path / "Hopper-v4/virel/seed1", 100)
    for address, refusal in (("local", 2), ("auto", 0)):
        code = ray_experiment(
            monkeypatch,
            FakeRay(),
            *flags,
            "--seeds=1",
            "--total_steps=100",
            f"--out={tmp_path}",
            f"--ray_address={address}",
        )
        assert code == (0 if fits else refusal)
        assert (message in capsys.readouterr().err) == (not fits)


def test_gpus_without_a_cluster_have_no_effect(tmp_path, capsys):
    finish(tmp_path / "Hopper-v4/virel/seed1", 100)
    assert (
        main(
            [
                "experiment",
                "--envs=Hopper-v4",
                "--variants=virel",
                "--seeds=1",
                "--total_steps=100",
                f"--out={tmp_path}",
                "--gpus_per_run=1",
            ]
        )
        == 0
    )
    assert "virel-tf: gpus_per_run " in capsys.readouterr().err


def test_a_stop_is_heard_though_ray_takes_the_signal_as_it_starts(tmp_path, monkeypatch):
    class Interrupted(FakeRay):
        def init(self, address: str, **options) -> None:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit("Ray ends its driver"))

        def remote(self, *arguments, **options) -> object:
            if arguments:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().remote(*arguments, **options)

        def cancel(self, task: object) -> None:
            self.results.append(task)

    before, ray = signal.getsignal(signal.SIGTERM), Interrupted()
    try:
        assert (
            ray_experiment(monkeypatch, ray, "--seeds=1", "--ray_address=auto", f"--out={tmp_path}")
            == 143
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(ray.results) == 1 and ray.shut_down == 1
    assert recorded(tmp_path) == {"Hopper-v4/virel/seed1": ("waiting", "")}


@pytest.mark.parametrize(
    "in_time, told",
    [
        (True, "stopped, and the running cells saved;"),
        (
            False,
            (
                "stopped; not saved in time, so back at their newest checkpoints:"
                " Hopper-v4/virel/seed1;"
            ),
        ),
    ],
)
def test_a_cell_that_did_not_save_in_time_is_named(tmp_path, monkeypatch, capsys, in_time, told):
    class Stopped(FakeRay):
        def remote(self, *arguments, **options) -> object:
            if arguments:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().remote(*arguments, **options)

        def wait(self, tasks: list, **options) -> tuple[list, list]:
            return (tasks, []) if in_time and options["timeout"] else ([], tasks)

        def cancel(self, task: object) -> None:
            pass

    assert (
        ray_experiment(
            monkeypatch, Stopped(), "--seeds=1", "--ray_address=auto", f"--out={tmp_path}"
        )
        == 143
    )
    assert told in capsys.readouterr().err
