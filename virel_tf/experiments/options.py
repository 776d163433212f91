"""The settings of the commands about many runs."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from virel_tf.config import RUN, Config
from virel_tf.errors import ConfigError
from virel_tf.options import flags_of, option

GRID, POOL = "grid", "resources"

# Flags that the grid or the experiment sets for each cell.
CELL_FLAGS = ("env", "variant", "seed", "run_dir", "resume", "threads")
TRAINING_FLAGS = tuple(field for field in flags_of(Config) if field.name not in CELL_FLAGS)


@dataclasses.dataclass(frozen=True)
class ExperimentOptions:
    """The flags of `virel-tf experiment` beside those of training."""

    envs: str = option("InvertedPendulum-v4", GRID, "gymnasium ids, separated by commas")
    variants: str = option("virel,beta,sac", GRID, "algorithms, separated by commas")
    seeds: str = option(
        "5", GRID, "number of seeds, counted from 1; or a list, as in 3,5,8 (one seed: 7,)"
    )
    sweep: str = option(
        "",
        GRID,
        "flags of training and their values, as in tau=0.001,0.005 (several: separated by "
        "semicolons)",
    )
    out: str = option(
        "runs", GRID, "folder of the runs: OUT/ENV/VARIANT/seedSEED, as for single runs"
    )
    cpus_per_run: int = option(1, POOL, "cores for each run", least=1)
    jobs: int = option(0, POOL, "runs at a time (0: as many as fit the cores)", least=0)
    ray_address: str = option(
        "",
        POOL,
        "run on Ray: auto, local, or the address of a cluster's head (needs the extra "
        "ray, and OUT on storage that all machines share)",
    )
    gpus_per_run: float = option(0.0, POOL, "with Ray: GPUs for each run", least=0)


RUNS_HELP = "folders with runs in or below them, such as runs"
LABEL = re.compile(r"[\w.,=+-]+(/[\w.,=+-]+)*")
LABEL_HELP = (
    "runs of a store alone, and of those the ones with this label, such as modern or studies/tau "
    "(default: all but studies)"
)
FIGURES = ("curves", "iqm", "profiles", "improvement", "epsilon")
PICTURES = (".png", ".svg", ".pdf")


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """The words and flags of `virel-tf report`."""

    runs: tuple[str, ...] = option((), RUN, RUNS_HELP)
    out: str = option(
        "", RUN, "folder to write report.html, figures/ and tables/ to (default RUNS/report)"
    )
    title: str = option("Runs compared", RUN, "title of the page")
    label: str = option("", RUN, LABEL_HELP)
    bootstrap_samples: int = option(
        2000, RUN, "bootstrap resamples for intervals of aggregates", least=100
    )
    published: str = option("", RUN, "CSV file of published returns (default: the package's)")

    def __post_init__(self) -> None:
        need_runs(self.runs, "report")


@dataclasses.dataclass(frozen=True)
class PlotOptions:
    """The words and flags of `virel-tf plot`."""

    runs: tuple[str, ...] = option((), RUN, RUNS_HELP)
    out: str = option("figure.png", RUN, "file to write, .png, .svg or .pdf")
    figure: str = option("curves", RUN, "what to draw", choices=FIGURES)
    env: str = option("", RUN, "draw this environment alone (default: all there are)")
    label: str = option("", RUN, LABEL_HELP)
    bootstrap_samples: int = option(
        2000, RUN, "bootstrap resamples for intervals of aggregates", least=100
    )
    published: str = option("", RUN, "CSV file of published returns (default: the package's)")

    def __post_init__(self) -> None:
        need_runs(self.runs, "plot")
        # a name that is nothing but .png has no suffix
        if Path(self.out).suffix.lower() not in PICTURES:
            raise ConfigError(
                "out",
                f"{self.out!r} is not allowed; it must be a file name that ends in "
                f"{', '.join(PICTURES)}",
            )


@dataclasses.dataclass(frozen=True)
class PackOptions:
    """The words and flags of `virel-tf pack`."""

    runs: tuple[str, ...] = option((), RUN, RUNS_HELP)
    out: str = option("", RUN, "folder of the store, which is made where there is none (required)")
    label: str = option(
        "", RUN, "what the runs belong to, such as modern, or studies/NAME for a study (required)"
    )
    replace: bool = option(
        False, RUN, "first delete the label's runs in the environments that are packed"
    )
    unfinished: bool = option(False, RUN, "pack runs that have not come to their end too")

    def __post_init__(self) -> None:
        need_runs(self.runs, "pack")
        if not self.out:
            raise ConfigError("out", "pack needs it; it must be the folder of a store")
        if not LABEL.fullmatch(self.label):
            raise ConfigError(
                "label",
                f"{self.label!r} is not allowed; it must be names of letters, digits and _.,=+-,"
                " separated by /, such as modern or studies/tau",
            )


def need_runs(runs: tuple[str, ...], command: str) -> None:
    """ConfigError where no folder is named."""
    if not runs:
        raise ConfigError(
            "runs",
            f"{command} needs them; they must be {RUNS_HELP}, as in virel-tf {command} runs",
        )
