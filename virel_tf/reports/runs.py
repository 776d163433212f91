"""Runs on disk, in folders or in a store.

Which there are, what they measured, and which of them are the same but for the seed.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from virel_tf.errors import ConfigError
from virel_tf.experiments.command_line import non_default_settings
from virel_tf.experiments.record import planned_cells
from virel_tf.registry import RECIPES
from virel_tf.reports.aggregates import final_score
from virel_tf.reports.store import StoredRun, find_stores, read_store
from virel_tf.run_folder.identity import (
    changes_numbers,
    fingerprint,
    identity,
    lacking_identity,
    with_default_settings,
)
from virel_tf.run_folder.metrics import Row, read_rows
from virel_tf.run_folder.paths import CONFIG, METRICS, find_runs
from virel_tf.run_folder.provenance import known_parts, read_versions
from virel_tf.run_folder.settings import read_settings

LEAST_LENGTH = 0.5  # of the longest run of a group: what has less steps is left out of its numbers


class Run(NamedTuple):
    """One run: the settings it was made with, and a row for each of its evaluations.

    Or one that was just planned.
    """

    folder: Path
    settings: dict[str, Any]
    rows: list[Row]
    state: str = ""  # what an experiment recorded of it, where it is not done
    there: bool = True
    versions: tuple[dict[str, Any], ...] = ()  # what made it, part by part

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

    def evaluated_by(self, step: float) -> bool:
        """Whether it has an evaluation up to that step."""
        return len(self.series("eval_return", step)[0]) > 0

    def series(self, column: str, until: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of a column where it has finite ones, up to a step."""
        pairs = [
            (row["step"], row[column])
            for row in self.rows
            if isinstance(row.get(column), (int, float))
            and np.isfinite(row[column])
            and row["step"] <= until
        ]
        steps, values = np.array(pairs, float).reshape(-1, 2).T
        return steps, values


class Group(NamedTuple):
    """Runs that differ in the seed alone.

    All numbers of a group end where its shortest run does.
    """

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

    @property
    def longest(self) -> int:
        """Up to which some seed has been evaluated."""
        return max(run.steps for run in self.runs)

    def evaluated_by(self, step: float) -> Group:
        """The group of those runs that have an evaluation up to that step."""
        return self._replace(runs=[run for run in self.runs if run.evaluated_by(step)])

    def final_scores(self, until: float | None = None) -> np.ndarray:
        """[seeds]: of each run, at `until` or where the group ends."""
        return np.array(
            [final_score(run.series("eval_return", until or self.steps)[1]) for run in self.runs]
        )

    def curves(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps and [seeds, steps].

        A column of the runs that have it, interpolated between their evaluations.
        """
        series = [pair for run in self.runs if len((pair := run.series(column))[0])]
        if not series:
            return np.zeros(0), np.zeros([0, 0])
        first, last = max(steps[0] for steps, _ in series), min(steps[-1] for steps, _ in series)
        grid = np.unique(np.concatenate([steps for steps, _ in series]))
        grid = grid[(grid >= first) & (grid <= last)]
        return grid, np.stack([np.interp(grid, steps, values) for steps, values in series])


def read_runs(folders: list[Path], label: str = "") -> list[Run]:
    """Every run in or below the folders, each once: in a folder of its own, or in a store.

    Of a store those of the label, or else all but those of studies. ConfigError where there is no
    run, or one cell is there twice.
    """
    found: dict[Path, Run] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(
                None, f"'{folder}': there is no such folder; it must be one with runs in it"
            )
        stores = find_stores(folder)
        found_here = [] if label else find_runs(folder)
        if label and not stores:
            raise ConfigError(
                "label", f"'{folder}': there is no store in it, which alone has labels"
            )
        if not stores and not found_here:
            raise ConfigError(
                None,
                f"'{folder}': there is no run in it; a run has a {CONFIG} and a {METRICS}",
            )
        for run_folder in found_here:
            found.setdefault(run_folder.resolve(), read_run(run_folder))
        for store in stores:
            for stored in read_store(store, label):
                found.setdefault(stored.path(store).resolve(), of_store(stored, store))
    cells: dict[tuple[str, int], Run] = {}
    for run in found.values():
        first = cells.setdefault(identity(run.settings), run)
        if first is not run:
            raise ConfigError(
                None,
                f"'{first.folder}' and '{run.folder}' are the same run, {run.env} {run.variant}"
                f" seed {run.seed} with the same settings; leave one of them out",
            )
    return list(found.values())


def read_run(folder: Path) -> Run:
    """A run as far as it has come."""
    saved = read_settings(folder)
    missing = lacking_identity(saved)
    if missing:
        raise ConfigError(
            None,
            f"'{folder / CONFIG}' does not say the run's {', '.join(missing)}, or not as it should",
        )
    return Run(
        folder,
        with_default_settings(saved),
        read_rows(folder)[1],
        versions=tuple(read_versions(folder)),
    )


def of_store(stored: StoredRun, store: Path) -> Run:
    """A run of a store, as one in a folder would be."""
    return Run(
        stored.path(store),
        stored.all_settings,
        stored.rows(store),
        versions=tuple(known_parts(stored.versions)),
    )


def group_runs(runs: list[Run]) -> list[Group]:
    """Runs that differ in the seed alone, by environment.

    Within one, in the order in which variants are listed.
    """
    together: dict[str, list[Run]] = {}
    for run in runs:
        together.setdefault(fingerprint(run.settings), []).append(run)
    groups = [
        Group(same[0].env, same[0].variant, same[0].variant, sorted(same, key=lambda run: run.seed))
        for same in together.values()
    ]
    telling = {
        variant: telling_settings([group for group in groups if group.variant == variant])
        for variant in {group.variant for group in groups}
    }
    groups = [group._replace(label=label_of(group, telling[group.variant])) for group in groups]
    return sorted(groups, key=lambda group: (group.env, *listing_order(group)))


def listing_order(group: Group) -> tuple[int, str, int, str]:
    """Variants as `virel-tf variants` lists them, then others.

    The plain one before those with further settings.
    """
    order = list(RECIPES)
    place = order.index(group.variant) if group.variant in order else len(order)
    return place, group.variant, len(group.label), group.label


def telling_settings(groups: list[Group]) -> set[str]:
    """The settings in which groups of one variant differ, in one environment or between two.

    So a label means the same in all environments. What a preset has for each of them is no
    difference: presets stand for the settings they bring.
    """
    own = [non_default_settings(group.runs[0].settings) for group in groups]
    names = {
        name for settings in own for name in settings if name == "preset" or changes_numbers(name)
    }
    return {name for name in names if len({json.dumps(settings.get(name)) for settings in own}) > 1}


def label_of(group: Group, telling: set[str]) -> str:
    """The variant, and what tells the group from others of that variant."""
    own = non_default_settings(group.runs[0].settings)
    return ", ".join([group.variant, *(f"{name}={own[name]}" for name in own if name in telling)])


class Experiment(NamedTuple):
    """The groups that have been evaluated, and what a full grid lacks.

    The grid is of environments, labels and seeds.
    """

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

    def steps_in(self, env: str) -> int:
        """Of the longest group of one environment."""
        return max(group.steps for group in self.of(env))


def read_experiment(folders: list[Path], label: str = "") -> Experiment:
    """All runs in or below the folders, of a store those of the label.

    ConfigError where none has been evaluated.
    """
    runs = read_runs(folders, label)
    groups = group_runs(runs if label else with_planned(runs, folders))
    compared = [group for group in map(without_left_out, groups) if group.runs]
    if not compared:
        raise ConfigError(None, f"'{folders[0]}': no run in it has been evaluated yet")
    return Experiment(compared, missing_cells(groups))


def with_planned(runs: list[Run], folders: list[Path]) -> list[Run]:
    """The runs with what experiments recorded of them.

    And the runs that they planned and that are not there.
    """
    found = {identity(run.settings): run for run in runs}
    names = {run.folder.resolve(): identity(run.settings) for run in runs}
    for cell in planned_cells(folders):
        planned = Run(cell.folder, cell.settings, [], cell.state, there=False)
        name = names.get(cell.folder, identity(cell.settings))
        run = found.get(name, planned)
        if not cell.done_since(run.steps):
            found[name] = run._replace(state=cell.state)
    return list(found.values())


def without_left_out(group: Group) -> Group:
    """The runs that the group's numbers are made of.

    Since all end with the shortest, it must not be too short.
    """
    runs = [run for run in group.runs if run.steps and run.steps >= LEAST_LENGTH * group.longest]
    end = min((run.steps for run in runs), default=0)
    return group._replace(runs=runs).evaluated_by(end)


class Missing(NamedTuple):
    """Cells of the grid that are not there, or not whole."""

    env: str
    label: str
    seeds: list[int]
    what: str

    @property
    def words(self) -> str:
        """All of it in a line."""
        seeds = ", ".join(map(str, self.seeds))
        return (
            f"{self.env} {self.label} seed{'s' if len(self.seeds) > 1 else ''} {seeds}: {self.what}"
        )


def missing_cells(groups: list[Group]) -> list[Missing]:
    """The cells of the grid of environments, labels and seeds that are absent or not whole.

    A run is whole when none in its environment is longer.

    What a record says of a cell that is not there, or not whole, is told with it.
    """
    cells = {
        (group.env, group.label, run.seed): (run, group) for group in groups for run in group.runs
    }
    envs, labels, seeds = (dict.fromkeys(names) for names in zip(*cells, strict=True))
    longest = {env: max(group.longest for group in groups if group.env == env) for env in envs}
    found: dict[tuple[str, str, str], list[int]] = {}
    for env, label, seed in itertools.product(envs, labels, sorted(seeds)):
        what = "absent"
        if cell := cells.get((env, label, seed)):
            run, group = cell
            what = shortcoming(run, group, longest[env])
            if run.state:
                what = f"{what or f'{run.steps:,} steps'} ({run.state})"
        if what:
            found.setdefault((env, label, what), []).append(seed)
    return [Missing(env, label, seeds, what) for (env, label, what), seeds in found.items()]


def shortcoming(run: Run, group: Group, longest: int) -> str:
    """What a run lacks, where the longest of its environment has so many steps.

    Empty where it is whole.
    """
    compared = without_left_out(group)
    if not run.there:
        return "absent"
    if not run.steps:
        return "no evaluation yet"
    if run in compared.runs:
        return f"{run.steps:,} of {longest:,} steps" if run.steps < longest else ""
    if run.steps < LEAST_LENGTH * group.longest:
        return f"left out: {run.steps:,} of {group.longest:,} steps"
    return f"left out: no evaluation up to step {compared.steps:,}"
