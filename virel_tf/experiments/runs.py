"""Runs on the disk: which there are, what they measured, and which of them are the same but for the seed."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from virel_tf.algorithms.registry import RECIPES
from virel_tf.config import Config
from virel_tf.errors import ConfigError
from virel_tf.experiments.command_line import own_settings
from virel_tf.experiments.record import Cell, unfinished_cells
from virel_tf.experiments.statistics import final_score
from virel_tf.metrics_file import Row, read_rows

FIELDS = {field.name: field for field in dataclasses.fields(Config)}
IDENTITY = ("env", "variant", "seed")


class Run(NamedTuple):
    """One run: the settings it was made with, and a row for each of its evaluations."""

    folder: Path
    settings: dict[str, Any]
    rows: list[Row]

    @property
    def env(self) -> str:
        return self.settings["env"]

    @property
    def variant(self) -> str:
        return self.settings["variant"]

    @property
    def seed(self) -> int:
        return self.settings["seed"]

    @property
    def steps(self) -> int:
        """Of its last evaluation; 0 before the first."""
        return int(self.series("eval_return")[0].max(initial=0))

    def series(self, column: str, until: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of a column where it has finite ones, up to a step."""
        pairs = [(row["step"], row[column]) for row in self.rows
                 if isinstance(row.get(column), (int, float)) and np.isfinite(row[column]) and row["step"] <= until]
        steps, values = np.array(pairs, float).reshape(-1, 2).T
        return steps, values


class Group(NamedTuple):
    """Runs that differ in the seed alone. All numbers of a group end where its shortest run does."""

    env: str
    variant: str
    label: str
    runs: list[Run]

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @property
    def steps(self) -> int:
        """Up to which every seed has been evaluated."""
        return min(run.steps for run in self.runs)

    def final_scores(self, until: float | None = None) -> np.ndarray:
        """[seeds]: of each run, at `until` or where the group ends."""
        return np.array([final_score(run.series("eval_return", until or self.steps)[1]) for run in self.runs])

    def curves(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps and [seeds, steps]: a column of all runs, interpolated where they were not evaluated at one step."""
        series = [run.series(column) for run in self.runs]
        if not all(len(steps) for steps, _ in series):
            return np.zeros(0), np.zeros([len(series), 0])
        first, last = max(steps[0] for steps, _ in series), min(steps[-1] for steps, _ in series)
        grid = np.unique(np.concatenate([steps for steps, _ in series]))
        grid = grid[(grid >= first) & (grid <= last)]
        return grid, np.stack([np.interp(grid, steps, values) for steps, values in series])


def read_runs(folders: list[Path]) -> list[Run]:
    """Every run in or below the folders, each once; ConfigError where there is none, or one cell is there twice."""
    found: dict[Path, Run] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"'{folder}': there is no such folder; it must be one with runs in it")
        configs = [path for path in sorted(folder.rglob("config.json")) if (path.parent / "metrics.csv").is_file()]
        if not configs:
            raise ConfigError(f"'{folder}': there is no run in it; a run has a config.json and a metrics.csv")
        for path in configs:
            found.setdefault(path.parent.resolve(), read_run(path.parent))
    cells: dict[tuple[str, int], Run] = {}
    for run in found.values():
        first = cells.setdefault((fingerprint(run), run.seed), run)
        if first is not run:
            raise ConfigError(f"'{first.folder}' and '{run.folder}' are the same run, {run.env} {run.variant} seed "
                              f"{run.seed} with the same settings; leave one of them out")
    return list(found.values())


def read_run(folder: Path) -> Run:
    """A run as far as it has come. Settings of other versions stay, and those it lacks have their defaults."""
    path = folder / "config.json"
    try:
        saved = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"'{path}' cannot be read: {error}") from error
    missing = [name for name in IDENTITY if not isinstance(saved, dict) or name not in saved]
    if missing:
        raise ConfigError(f"'{path}' does not say the run's {', '.join(missing)}")
    defaults = {name: field.default for name, field in FIELDS.items()}
    return Run(folder, defaults | saved, read_rows(folder / "metrics.csv")[1])


def fingerprint(run: Run) -> str:
    """What runs of one group share: all settings but the seed and those that change no number."""
    return json.dumps({name: value for name, value in run.settings.items()
                       if name in ("env", "variant") or changes_numbers(name)}, sort_keys=True)


def group_runs(runs: list[Run]) -> list[Group]:
    """Runs that differ in the seed alone, by environment, and then in the order in which variants are listed."""
    together: dict[str, list[Run]] = {}
    for run in runs:
        together.setdefault(fingerprint(run), []).append(run)
    groups = [Group(same[0].env, same[0].variant, same[0].variant, sorted(same, key=lambda run: run.seed))
              for same in together.values()]
    telling = {variant: telling_settings([group for group in groups if group.variant == variant])
               for variant in {group.variant for group in groups}}
    groups = [group._replace(label=label_of(group, telling[group.variant])) for group in groups]
    return sorted(groups, key=lambda group: (group.env, *listing_order(group)))


def listing_order(group: Group) -> tuple[int, str, int, str]:
    """Variants as `virel-tf variants` lists them, then others; the plain one before those with further settings."""
    order = list(RECIPES)
    place = order.index(group.variant) if group.variant in order else len(order)
    return place, group.variant, len(group.label), group.label


def telling_settings(groups: list[Group]) -> set[str]:
    """The settings in which groups of one variant differ within an environment."""
    telling: set[str] = set()
    for env in {group.env for group in groups}:
        own = [own_settings(group.runs[0].settings) for group in groups if group.env == env]
        # Presets stand for the settings they bring: where those differ, so do the presets' names or further flags.
        names = {name for settings in own for name in settings if name == "preset" or changes_numbers(name)}
        telling |= {name for name in names if len({json.dumps(settings.get(name)) for settings in own}) > 1}
    return telling


def changes_numbers(name: str) -> bool:
    """Whether a setting, other than environment, variant and seed, makes a run another one."""
    return name not in IDENTITY and not (name in FIELDS and FIELDS[name].metadata["may_change"])


def label_of(group: Group, telling: set[str]) -> str:
    """The variant, and what tells the group from others of that variant."""
    own = own_settings(group.runs[0].settings)
    return ", ".join([group.variant, *(f"{name}={own[name]}" for name in own if name in telling)])


class Experiment(NamedTuple):
    """The groups that have been evaluated, and what is missing to a full grid of environments, labels and seeds."""

    groups: list[Group]
    missing: list[Missing]

    @property
    def envs(self) -> list[str]:
        return list(dict.fromkeys(group.env for group in self.groups))

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(group.label for group in sorted(self.groups, key=listing_order)))

    def of(self, env: str) -> list[Group]:
        """The groups of one environment."""
        return [group for group in self.groups if group.env == env]


def read_experiment(folders: list[Path]) -> Experiment:
    """All runs in or below the folders; ConfigError where none has been evaluated."""
    groups = group_runs(read_runs(folders))
    evaluated = [group._replace(runs=[run for run in group.runs if run.steps]) for group in groups]
    evaluated = [group for group in evaluated if group.runs]
    if not evaluated:
        raise ConfigError(f"'{folders[0]}': no run in it has been evaluated yet")
    return Experiment(evaluated, missing_cells(groups, unfinished_cells(folders, groups)))


class Missing(NamedTuple):
    """Cells of the grid that are not there, or not whole."""

    env: str
    label: str
    seeds: list[int]
    what: str


def missing_cells(groups: list[Group], unfinished: dict[Cell, str]) -> list[Missing]:
    """Every environment, label and seed that occurs, against every other; a run is whole when none there is longer.

    What a record says of a cell that is not there, or not whole, is told with it.
    """
    cells = {(group.env, group.label, run.seed): run.steps for group in groups for run in group.runs}
    envs, labels, seeds = (dict.fromkeys(names) for names in zip(*cells, *unfinished, strict=True))
    found: dict[tuple[str, str, str], list[int]] = {}
    for env, label, seed in itertools.product(envs, labels, sorted(seeds)):
        steps = cells.get((env, label, seed))
        longest = max((length for cell, length in cells.items() if cell[0] == env), default=0)
        state = unfinished.get((env, label, seed), "")
        if steps and steps == longest and not state:
            continue
        what = "absent" if steps is None else f"{steps:,} of {longest:,} steps" if steps else "no evaluation yet"
        found.setdefault((env, label, f"{what} ({state})" if state else what), []).append(seed)
    return [Missing(env, label, seeds, what) for (env, label, what), seeds in found.items()]
