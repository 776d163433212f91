"""Experiments that are killed, wholly or in part, and end as if nothing had happened."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from trained_runs import assert_same_run, command

pytestmark = pytest.mark.slow

GRID = [
    "experiment",
    "--envs=Hopper-v4",
    "--variants=virel",
    "--preset=paper",
    "--seeds=3",
    "--total_steps=2000",
    "--hidden=16",
    "--batch_size=16",
    "--random_steps=200",
    "--eval_every=500",
    "--eval_steps=100",
    "--checkpoint_every=200",
    "--replay_size=1000",
]
CELLS = [f"Hopper-v4/virel/seed{seed}" for seed in (1, 2, 3)]


def start(out: Path, *flags: str) -> subprocess.Popen:
    return subprocess.Popen(
        command(*GRID, f"--out={out}", *flags), stderr=subprocess.PIPE, text=True
    )


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)


def steps(out: Path) -> dict[str, int]:
    """The newest checkpoint of each cell that has one."""
    return {
        cell: max(int(path.name[5:]) for path in found)
        for cell in CELLS
        if (found := list((out / cell / "checkpoints").glob("step-*")))
    }


def workers(experiment: subprocess.Popen, out: Path) -> dict[str, psutil.Process]:
    """The processes that train, by cell."""
    return {
        cell: process
        for process in psutil.Process(experiment.pid).children()
        for cell in CELLS
        if f"--run_dir={out / cell}" in process.cmdline()
    }


def assert_same_experiment(one: Path, other: Path) -> None:
    for cell in CELLS:
        assert_same_run(one / cell, other / cell)
    tables = [
        path.name for path in (one / "report" / "tables").iterdir() if path.name != "runs.csv"
    ]  # it has folders
    assert "scores-Hopper-v4.csv" in tables
    for name in tables:
        assert (one / "report/tables" / name).read_bytes() == (
            other / "report/tables" / name
        ).read_bytes(), name


def conclude(experiment: subprocess.Popen) -> str:
    told = experiment.communicate(timeout=600)[1]
    assert experiment.returncode == 0, told
    return told


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    conclude(start(out))
    assert steps(out) == dict.fromkeys(CELLS, 2000)
    return out


def test_kill_9_of_the_experiment_twice_and_of_a_worker_once(whole, tmp_path):
    for _ in range(2):
        experiment, before = start(tmp_path), steps(tmp_path)
        wait_for(lambda before=before: steps(tmp_path) != before, "a new checkpoint")
        assert experiment.poll() is None
        experiment.kill()
        experiment.wait()
    experiment = start(tmp_path)
    wait_for(lambda: bool(workers(experiment, tmp_path)), "a worker")
    cell, worker = workers(experiment, tmp_path).popitem()
    before = steps(tmp_path).get(cell, 0)
    wait_for(lambda: steps(tmp_path).get(cell, 0) > before, "a checkpoint of this worker")
    worker.kill()
    told = conclude(experiment)
    assert "ended by signal 9" in told
    assert_same_experiment(tmp_path, whole)


def test_a_lost_node_of_a_ray_cluster(whole, tmp_path):
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    cluster = cluster_utils.Cluster(
        initialize_head=True, head_node_args=dict(num_cpus=1, include_dashboard=False)
    )
    try:
        node = cluster.add_node(num_cpus=1)
        experiment = start(tmp_path, f"--ray_address={cluster.address}")
        wait_for(lambda: len(steps(tmp_path)) > 1, "a checkpoint on each node")
        cluster.remove_node(node, allow_graceful=False)
        told = conclude(experiment)
        assert "ended by signal 9" in told
    finally:
        cluster.shutdown()
    assert_same_experiment(tmp_path, whole)
