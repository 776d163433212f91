"""Where cells run: a Ray cluster.

Each cell is one task; Ray finds the machine, and tells when it is lost.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virel_tf.errors import ConfigError
from virel_tf.experiments.grid import Cell
from virel_tf.experiments.pool import launch

if TYPE_CHECKING:
    import ray

SAVE_WITHIN = 60.0  # seconds that tasks have to save when the experiment is stopped


class RayPool:
    """Tasks of a Ray cluster, which queues what does not fit."""

    def __init__(
        self, address: str, cpus: int, gpus: float, jobs: int, warn: Callable[[str], None]
    ) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise ConfigError(
                "ray_address", "Ray is not installed; pip install 'virel_tf[ray]' brings it"
            ) from None
        try:
            if ":" in address and "/" not in address:  # Ray itself would wait for minutes
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), timeout=10).close()
            ray.init(
                address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=False if address == "local" else None,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                "ray_address",
                f"no cluster at {address!r} ({str(error).splitlines()[0]}); it must"
                " be local, auto, or HOST:PORT of a cluster's head",
            ) from None
        lack = lacking_resources(ray.nodes(), cpus, gpus)
        if lack and address == "local":
            ray.shutdown()
            raise ConfigError("cpus_per_run", f"{lack}; it must be one that this machine has")
        if lack:  # a cluster may grow
            warn(f"virel-tf: {lack}; the runs wait until one has")
        self._ray = ray
        self._slots = jobs or sys.maxsize
        # A task that is lost is told to the experiment, which starts it again once nobody holds its
        # folder.
        self._train = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(train_cell)
        self._tasks: dict[str, tuple[Cell, ray.ObjectRef[int]]] = {}

    def slots(self) -> int:
        """How many cells to hand to Ray at a time: all, since it has the queue."""
        return self._slots

    def start(self, cell: Cell) -> None:
        """Hands a cell to Ray."""
        task = self._train.options(name=cell.name).remote(cell.command[1:], str(cell.folder))
        self._tasks[cell.name] = cell, task

    def ended(self) -> list[tuple[Cell, int | str]]:
        """Cells whose task has ended since the last call, and its exit code.

        That is SIGKILL's where the task was lost, and words where no process could be started.
        """
        by_task = {task: cell for cell, task in self._tasks.values()}
        over, _ = (
            self._ray.wait(list(by_task), num_returns=len(by_task), timeout=0)
            if by_task
            else ([], [])
        )
        return [(by_task[task], self._exit_code(by_task[task], task)) for task in over]

    def _exit_code(self, cell: Cell, task: ray.ObjectRef[int]) -> int | str:
        del self._tasks[cell.name]
        errors = self._ray.exceptions
        try:
            return self._ray.get(task)
        except (
            errors.RayTaskError
        ) as error:  # the task itself could not do its work, on this machine or any other
            return str(error.cause)
        except errors.RayError:
            return -signal.SIGKILL

    def stop(self) -> list[str]:
        """Asks every task to save and end, and leaves the cluster.

        Returns the cells it waited for in vain.
        """
        by_task = {task: name for name, (_, task) in self._tasks.items()}
        for task in by_task:
            self._ray.cancel(task)
        late = (
            self._ray.wait(list(by_task), num_returns=len(by_task), timeout=SAVE_WITHIN)[1]
            if by_task
            else []
        )
        self._ray.shutdown()
        return [by_task[task] for task in late]


def lacking_resources(nodes: list[dict[str, Any]], cpus: int, gpus: float) -> str:
    """What is asked for and no node has, in words; empty where one has it."""
    have = [
        (node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0))
        for node in nodes
        if node["Alive"]
    ]
    if any(cpus <= cores and gpus <= cards for cores, cards in have):
        return ""
    told = ", ".join(f"{cores:g} and {cards:g}" for cores, cards in sorted(set(have), reverse=True))
    return (
        f"no node has cpus_per_run={cpus} cores and gpus_per_run={gpus:g} GPUs (there are: {told})"
    )


def train_cell(arguments: list[str], folder: str) -> int:
    """The task: training in a process of its own."""
    process = launch([sys.executable, *arguments], Path(folder))
    try:
        return process.wait()
    except BaseException:  # Ray's way to say that the task is not wanted any more
        process.terminate()
        return process.wait()
