"""`virel-tf train`: trains with evaluations, logs and checkpoints."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from virel_tf import machine
from virel_tf.algorithms.diagnostics import Diagnostics
from virel_tf.algorithms.learner import METRICS
from virel_tf.config import Config
from virel_tf.envs.make import make_env
from virel_tf.errors import BadNumber, RunError
from virel_tf.evaluate.rollout import Evaluation, evaluate_policy
from virel_tf.export.command import export_policies
from virel_tf.files import ensure_writable
from virel_tf.machine import device_line
from virel_tf.networks.actor import Actor
from virel_tf.run_folder.checkpoints import CheckpointStore
from virel_tf.run_folder.lock import only_writer
from virel_tf.run_folder.metrics_log import MetricsLog
from virel_tf.run_folder.paths import checkpoints_folder, learning_curve_path, policy_path
from virel_tf.run_folder.policies import save_policy
from virel_tf.run_folder.progress import mark_finished
from virel_tf.run_folder.provenance import record_versions
from virel_tf.run_folder.settings import (
    refuse_other_recipe,
    refuse_other_run,
    write_settings,
)
from virel_tf.train.curve import draw_learning_curve
from virel_tf.train.progress import Progress
from virel_tf.train.run import Iteration, Run
from virel_tf.train.triggers import StopRequest, crossed


def train(config: Config) -> int:
    """Trains until total_steps or a signal to stop, from the newest checkpoint.

    Returns the exit code.
    """
    machine.configure(config.threads)
    folder = config.directory
    make_env(config.env).close()  # fails before anything is written
    refuse_other_run(config, folder)
    ensure_writable(folder)
    with only_writer(folder), StopRequest() as stop:
        return Training(config, folder).go(stop)


class Training:
    """One process's part in a run: from the newest checkpoint to the end or a stop."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.folder = config, folder
        self.run = Run(config)
        self.eval_env = make_env(config.env, fallback_length=config.path_length)
        self.actor = Actor(self.run.learner.evaluated_policy)
        self.diagnostics = Diagnostics(self.run.learner) if config.diagnostics else None
        self.store = CheckpointStore(checkpoints_folder(folder))
        self.window = Window()
        self.best = -np.inf
        self.seconds_before = 0.0
        rows = 0
        checkpoint = self.store.load_newest()
        if checkpoint:
            refuse_other_recipe(config, folder, checkpoint.info.get("recipe", {}))
            self.run.restore(checkpoint)
            self.window.load_state(checkpoint.arrays)
            rows, self.best = checkpoint.info["metrics_rows"], checkpoint.info["best"]
            self.seconds_before = checkpoint.info["seconds"]
        elif policy_path(folder, "last").exists():  # it is written after a checkpoint
            raise RunError(
                f"{folder} holds a run whose checkpoints are missing, so it cannot resume; set"
                " another folder, or remove this one to start from scratch"
            )
        write_settings(folder, config)
        record_versions(folder, self.run.step)
        self.log = MetricsLog(folder, rows)
        self.started = time.monotonic()
        self.start_step = self.run.step
        self.progress = Progress(config.total_steps, self.start_step)
        if checkpoint:  # the process that wrote it may have been killed before it wrote these
            self.write_last()

    def go(self, stop: StopRequest) -> int:
        """Trains, with evaluations and checkpoints; returns the exit code."""
        self.progress.message(device_line(self.config.threads))
        if self.start_step:
            self.progress.message(f"{self.folder}: resuming from step {self.start_step}")
        foreign = self.run.envs[0].foreign_state
        if foreign:
            self.progress.message(
                f"{self.config.env} keeps state that cannot be saved ({', '.join(foreign)});"
                " a resumed run will differ from an uninterrupted one"
            )
        before = saved = self.start_step
        try:
            for iteration in self.run.iterate():
                self.window.add(iteration)
                if crossed(self.config.eval_every, before, iteration.step):
                    self.evaluate_and_log()
                if crossed(self.config.checkpoint_every, before, iteration.step):
                    self.save()
                    saved = iteration.step
                self.progress.update(
                    iteration.step, self.window.last_return, self.window.last_epsilon
                )
                before = iteration.step
                if stop.signal:
                    break
            if before > saved:
                self.save()
        except BadNumber as error:
            message = f"{error}; last good checkpoint: {self.store.newest_path() or 'none yet'}"
            raise RunError(message + self.export_after_error()) from None
        finally:
            self.progress.close()
            self.log.close()
            self.run.close()
            self.eval_env.close()
        export_policies(self.folder)
        if self.run.step >= self.config.total_steps:
            mark_finished(self.folder, self.run.step)
        self.print_summary(stop)
        return stop.exit_code

    def export_after_error(self) -> str:
        """Exports the policies saved before a bad number.

        Returns what to add to the error message where the export fails.
        """
        try:
            export_policies(self.folder)
        except Exception as error:  # it must not hide why the run ended
            return f"; its policies were not exported: {error}"
        return ""

    def evaluate_and_log(self) -> None:
        """One evaluation, one row of metrics.csv, and the policy if it is the best so far."""
        self.actor.refresh()
        evaluation = evaluate_policy(
            self.actor.mean_action,
            self.eval_env,
            seed=self.config.seed * 1_000_003 + self.run.step,
            steps=self.config.eval_steps,
            episodes=self.config.eval_episodes,
        )
        if evaluation.mean > self.best:
            self.best = evaluation.mean
            self.save_policy("best")
        seconds = self.seconds_before + time.monotonic() - self.started
        rate = (self.run.step - self.start_step) / max(time.monotonic() - self.started, 1e-9)
        self.window.last_return = evaluation.mean
        columns = self.window.columns()
        if self.config.reward_scaling == "return":
            columns["reward_divisor"] = self.run.collector.return_scale.divisor
        if self.diagnostics:
            columns |= self.diagnostics.read(self.run.updates, columns["temperature"])
        self.log.write(
            {
                "step": self.run.step,
                **evaluation_columns(evaluation),
                **columns,
                "seconds": round(seconds, 2),
                "steps_per_s": round(rate, 1),
            }
        )
        self.window.clear()

    def save(self) -> None:
        """A checkpoint, the last policy and the learning curve."""
        seconds = self.seconds_before + time.monotonic() - self.started
        self.run.save(
            self.store,
            self.window.state(),
            dict(
                metrics_rows=len(self.log.rows),
                best=float(self.best),
                seconds=seconds,
                recipe=self.config.recipe.parts(),
            ),
        )
        self.write_last()

    def write_last(self) -> None:
        """Writes the files that belong to a checkpoint: the last policy and the learning curve."""
        self.save_policy("last")
        if self.log.rows:
            title = f"{self.config.env}, {self.config.variant}, seed {self.config.seed}"
            draw_learning_curve(self.log.rows, learning_curve_path(self.folder), title)

    def save_policy(self, which: str) -> None:
        """Saves the current policy and its critics."""
        learner = self.run.learner
        save_policy(
            policy_path(self.folder, which),
            learner.evaluated_policy,
            self.run.step,
            learner.critics.online,
            self.run.collector.return_scale.divisor,
        )

    def print_summary(self, stop: StopRequest) -> None:
        """Prints the outcome of the run."""
        if stop.signal:
            print(f"stopped at step {self.run.step} and saved; run the same command to resume")
        else:
            returns = "no evaluation yet"
            if self.window.last_return is not None:
                returns = f"last return {self.window.last_return:.1f}, best {self.best:.1f}"
            print(
                f"{self.config.env} {self.config.variant} seed {self.config.seed}: step"
                f" {self.run.step}, {returns}; see {self.folder}"
            )


class Window:
    """Metrics since the last row of metrics.csv."""

    def __init__(self) -> None:
        self.last_return: float | None = None
        self.last_epsilon: float | None = None
        self.clear()

    def clear(self) -> None:
        """Starts a new row."""
        self.sums = np.zeros(len(METRICS))
        self.updates = 0
        self.returns: list[float] = []

    def add(self, iteration: Iteration) -> None:
        """Takes in one iteration."""
        self.returns += [episode.return_ for episode in iteration.episodes]
        if len(iteration.metrics):
            self.sums += iteration.metrics.sum(axis=0, dtype=np.float64)
            self.updates += len(iteration.metrics)
            self.last_epsilon = float(iteration.metrics[-1, METRICS.index("epsilon")])

    def columns(self) -> dict[str, float | None]:
        """Means over the window; None where there is nothing to average."""
        means = self.sums / self.updates if self.updates else [None] * len(METRICS)
        return {
            "train_return": float(np.mean(self.returns)) if self.returns else None,
            "train_episodes": len(self.returns),
            **{
                name: None if mean is None else float(mean)
                for name, mean in zip(METRICS, means, strict=True)
            },
        }

    def state(self) -> dict[str, np.ndarray]:
        """For the checkpoint, so that a resumed run writes the same row."""
        last = [np.nan if self.last_return is None else self.last_return]
        return {
            "window/sums": self.sums,
            "window/updates": np.array(self.updates),
            "window/returns": np.array(self.returns, np.float64),
            "window/last_return": np.array(last),
        }

    def load_state(self, arrays: dict[str, np.ndarray]) -> None:
        """Restores what `state` saved."""
        self.sums, self.updates = arrays["window/sums"].copy(), int(arrays["window/updates"])
        self.returns = arrays["window/returns"].tolist()
        last = float(arrays["window/last_return"][0])
        self.last_return = None if np.isnan(last) else last


def evaluation_columns(evaluation: Evaluation) -> dict[str, float]:
    """The evaluation's part of a row."""
    return {
        "eval_return": evaluation.mean,
        "eval_return_min": min(evaluation.returns),
        "eval_return_max": max(evaluation.returns),
        "eval_episodes": len(evaluation.returns),
        "eval_length": float(np.mean(evaluation.lengths)),
    }
