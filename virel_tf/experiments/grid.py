"""The cells of an experiment.

Environments x variants x seeds x swept settings; each cell is one run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from virel_tf.config import Config
from virel_tf.envs.make import make_env
from virel_tf.errors import ConfigError
from virel_tf.experiments.command_line import flag_text
from virel_tf.experiments.options import TRAINING_FLAGS, ExperimentOptions
from virel_tf.options import did_you_mean, read_value
from virel_tf.registry import RECIPES
from virel_tf.run_folder.identity import identity, lacking_identity, with_default_settings
from virel_tf.run_folder.paths import find_settings
from virel_tf.run_folder.settings import read_settings, refuse_other_run

Word = TypeVar("Word", str, int)

MOST_SEEDS = 1000
SWEPT = {field.name: field for field in TRAINING_FLAGS}
HIGHEST_SEED = Config.__dataclass_fields__["seed"].metadata["most"]


class Cell(NamedTuple):
    """One run of the grid."""

    name: str  # unique in the grid: HalfCheetah-v4/beta/tau=0.001/seed1
    config: Config
    flags: tuple[str, ...]  # of the `virel-tf train` that makes it

    @property
    def folder(self) -> Path:
        """Where the run writes."""
        return self.config.directory

    @property
    def flag_names(self) -> list[str]:
        """The names of `flags`."""
        return [flag[2:].partition("=")[0] for flag in self.flags]

    @property
    def command(self) -> list[str]:
        """The command that trains or resumes it."""
        return [sys.executable, "-m", "virel_tf", "train", *self.flags]


def make_cells(options: ExperimentOptions, training: dict[str, Any]) -> list[Cell]:
    """All cells, seed by seed, so that an experiment cut short has compared everything a little.

    ConfigError where a value is not allowed or a folder holds a run of other settings: nothing has
    been started then.
    """
    envs = split_list("envs", options.envs)
    variants = split_list("variants", options.variants)
    for variant in variants:
        if variant not in RECIPES:
            raise ConfigError(
                "variants",
                f"{variant!r} is not allowed; it must be one of {', '.join(RECIPES)}"
                + did_you_mean(variant, RECIPES),
            )
    sweeps = list(read_sweep(options.sweep, training))
    for env in envs:
        try:
            make_env(env).close()
        except ConfigError as error:
            raise ConfigError("envs", error.message) from None
    cells = [
        make_cell(Path(options.out), options.cpus_per_run, env, variant, seed, swept, training)
        for seed, env, variant, swept in itertools.product(
            read_seeds(options.seeds), envs, variants, sweeps
        )
    ]
    refuse_same_runs(cells, Path(options.out))
    return cells


def make_cell(
    out: Path,
    threads: int,
    env: str,
    variant: str,
    seed: int,
    swept: dict[str, str],
    training: dict[str, Any],
) -> Cell:
    """One cell.

    Its folder is the one `virel-tf train` would choose below `out`, so that single runs count too.
    """
    setting = ",".join(f"{name}={value}" for name, value in swept.items())
    name = "/".join(filter(None, [env.replace("/", "_"), variant, setting, f"seed{seed}"]))
    values = {
        **training,
        **{name: read_value(SWEPT[name], value) for name, value in swept.items()},
        "env": env,
        "variant": variant,
        "seed": seed,
        "run_dir": str(out / name),
        "threads": threads,
    }
    config = Config(**values)
    try:
        refuse_other_run(config, config.directory)
    except ConfigError as error:
        raise ConfigError("out", error.message) from None
    return Cell(
        name, config, tuple(f"--{flag}={flag_text(value)}" for flag, value in values.items())
    )


def refuse_same_runs(cells: list[Cell], out: Path) -> None:
    """Raises ConfigError where two cells are one, or a cell and a run in another folder.

    Runs are looked for in the folder of the cell's environment and variant.
    """
    places = {out.joinpath(*cell.name.split("/")[:2]) for cell in cells}
    there = {
        identity(settings): folder
        for place in sorted(places)
        for folder, settings in saved_settings(place)
    }
    first: dict[tuple[str, int], Cell] = {}
    for cell in cells:
        run = identity(dataclasses.asdict(cell.config))
        other = first.setdefault(run, cell)
        if other is not cell:
            raise ConfigError(
                "sweep",
                f"{other.name} and {cell.name} would be the same run, since they differ in"
                " nothing that changes a number; leave one of them out",
            )
        if there.get(run, cell.folder) != cell.folder:
            raise ConfigError(
                "sweep",
                f"{cell.name} would be the same run as {there[run]}, which exists"
                " already; leave its values out, or set another out",
            )


def saved_settings(place: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folders of runs of an environment and variant, plain and swept, and their settings."""
    for folder in find_settings(place, depth=2):
        # corrupt settings are an error when their cell is made
        with contextlib.suppress(ConfigError):
            saved = read_settings(folder)
            if not lacking_identity(saved):
                yield folder, with_default_settings(saved)


def split_list(flag: str, text: str) -> list[str]:
    """The words of a comma-separated flag, none of them twice."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise ConfigError(flag, f"{text!r} is not allowed; it must be a list such as A,B")
    return refuse_twice(flag, words)


def read_seeds(text: str) -> list[int]:
    """5 means 1 to 5; 3,5,8 means just these, and 7, just that one."""
    words = text.split(",")
    try:
        numbers = [
            int(word)
            for word in (words[:-1] if len(words) > 1 and not words[-1].strip() else words)
        ]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or text.strip() == "0":
        raise ConfigError(
            "seeds",
            f"{text!r} is not allowed; it must be a count, such as 5, or a list, such as 3,5,8",
        )
    if max(numbers) > HIGHEST_SEED or (len(numbers) if "," in text else numbers[0]) > MOST_SEEDS:
        raise ConfigError(
            "seeds",
            f"{text!r} is not allowed; it must be at most {MOST_SEEDS} seeds, each of 0 to"
            f" {HIGHEST_SEED}",
        )
    return refuse_twice("seeds", numbers) if "," in text else list(range(1, numbers[0] + 1))


def read_sweep(text: str, training: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Every combination of the swept flags' values.

    One empty combination where nothing is swept.
    """
    names: list[str] = []
    values: list[Sequence[str]] = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, rest = part.partition("=")
        name = name.strip().lstrip("-")
        if name not in SWEPT:
            raise ConfigError(
                "sweep",
                f"{name!r} is not allowed; it must be a setting of training and its values,"
                " as in tau=0.001,0.005" + did_you_mean(name, SWEPT),
            )
        if name in training:
            raise ConfigError("sweep", f"{name} is also set as a flag; it must be one or the other")
        if not equals:
            raise ConfigError("sweep", f"{name} has no values; it must be as in {name}=A,B")
        names.append(name)
        values.append(split_list("sweep", rest))
    refuse_twice("sweep", names)
    for combination in itertools.product(*values):
        yield dict(zip(names, combination, strict=True))


def refuse_twice(flag: str, words: list[Word]) -> list[Word]:
    """The words; ConfigError where one occurs twice."""
    for word in words:
        if words.count(word) > 1:
            raise ConfigError(flag, f"{word} occurs twice")
    return words
