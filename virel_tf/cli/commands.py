"""What `virel-tf` can do: the commands, the flags of each, and what they run.

Each imports what it needs as it runs, so that listing them is fast.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from virel_tf.config import POLICIES, RUN, Config, starting_from_preset
from virel_tf.errors import ConfigError
from virel_tf.experiments.options import (
    TRAINING_FLAGS,
    ExperimentOptions,
    PackOptions,
    PlotOptions,
    ReportOptions,
)
from virel_tf.options import did_you_mean, flags_of, option
from virel_tf.registry import variants_table


@dataclasses.dataclass(frozen=True)
class EvaluateOptions:
    """The flags of `virel-tf evaluate`."""

    run_dir: str = option("", RUN, "folder of the run to evaluate")
    policy: str = option(
        "best",
        RUN,
        "which of the run's policies, best or last; or, without --run_dir, the folder of "
        "an exported one, such as RUN/saved_model/best",
    )
    episodes: int = option(10, RUN, "episodes to play", least=1)
    seed: int = option(
        1, RUN, "seed of the first episode; later ones count up", least=0, most=2**31 - 1
    )
    video: str = option("", RUN, "record the episodes to this file, .mp4 or .gif")

    def __post_init__(self) -> None:
        if not self.run_dir and self.policy in POLICIES:
            raise ConfigError(
                "run_dir",
                "evaluate needs it, or policy=PATH; it must be the folder a training run wrote to",
            )
        if self.run_dir and self.policy not in POLICIES:
            raise ConfigError(
                "policy",
                f"{self.policy!r} is not allowed with run_dir; it must be one of "
                f"{', '.join(POLICIES)}" + did_you_mean(self.policy, POLICIES),
            )
        if self.video and not self.video.lower().endswith((".mp4", ".gif")):
            raise ConfigError(
                "video", f"{self.video!r} is not allowed; it must end in .mp4 or .gif"
            )


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """The flags of `virel-tf export`."""

    run_dir: str = option("", RUN, "folder of the run whose policy to export (required)")
    policy: str = option(
        "best", RUN, "which policy of the run: best, last, or the step of a kept checkpoint"
    )
    format: str = option(
        "saved_model",
        RUN,
        "a SavedModel for TensorFlow, .tflite files for LiteRT, or an .onnx file",
        choices=("saved_model", "litert", "onnx"),
    )
    out: str = option(
        "",
        RUN,
        "folder that gets the next numbered version (default RUN/FORMAT/POLICY; a step's POLICY is stepSTEP)",
    )

    def __post_init__(self) -> None:
        need_run(self.run_dir, "export")
        if self.policy not in POLICIES and not self.policy.isdecimal():
            raise ConfigError(
                "policy",
                f"{self.policy!r} is not allowed; it must be one of"
                f" {', '.join(POLICIES)}, or the step of a checkpoint that the run keeps"
                + did_you_mean(self.policy, POLICIES),
            )


@starting_from_preset
@dataclasses.dataclass(frozen=True)
class BenchmarkOptions(Config):
    """The flags of `virel-tf benchmark`: those of training, and how long to measure."""

    seconds: float = option(20.0, RUN, "seconds to measure for", above=0, first=True)

    @property
    def config(self) -> Config:
        """The run to measure."""
        return Config(
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(Config)}
        )


@dataclasses.dataclass(frozen=True)
class LatencyOptions:
    """The flags of `virel-tf latency`."""

    run_dir: str = option("", RUN, "folder of the run whose policy to measure (required)")
    policy: str = option("best", RUN, "which of the run's policies", choices=POLICIES)
    seconds: float = option(10.0, RUN, "seconds to measure for", above=0)

    def __post_init__(self) -> None:
        need_run(self.run_dir, "latency")


def need_run(run_dir: str, command: str) -> None:
    """ConfigError where no run is named."""
    if not run_dir:
        raise ConfigError(
            "run_dir", f"{command} needs it; it must be the folder a training run wrote to"
        )


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """A command without flags."""


@dataclasses.dataclass(frozen=True)
class TheoryOptions:
    """The flags of `virel-tf theory`."""

    out: str = option("theory", RUN, "folder to write theory.html and its figures to")


def run_report(options: ReportOptions) -> int:
    from virel_tf.reports.report import write_report

    folders = [Path(name) for name in options.runs]
    page, missing = write_report(
        folders,
        Path(options.out or folders[0] / "report"),
        options.title,
        options.bootstrap_samples,
        options.published,
        options.label,
    )
    return print_written(page, missing)


def run_plot(options: PlotOptions) -> int:
    from virel_tf.reports.plot import write_plot

    return print_written(*write_plot(options))


def run_pack(options: PackOptions) -> int:
    from virel_tf.reports.store import pack

    packed, left_out = pack(
        [Path(name) for name in options.runs],
        Path(options.out),
        options.label,
        replace=options.replace,
        unfinished=options.unfinished,
    )
    for line in left_out:
        say(f"left out: {line}")
    say(f"packed {packed} run{'' if packed == 1 else 's'} into {options.out}")
    return 0


def print_written(path: Path, missing: list[str]) -> int:
    """Prints missing cells and the file that was written."""
    for cell in missing:
        say(f"missing: {cell}")
    say(f"wrote {path}")
    return 0


def run_theory(options: TheoryOptions) -> int:
    from virel_tf.theory.command import write_theory

    say(f"wrote {write_theory(Path(options.out))}")
    return 0


def run_variants(options: NoOptions) -> int:
    say(variants_table())
    return 0


def run_train(config: Config) -> int:
    from virel_tf.train.loop import train

    return train(config) or 0


def run_evaluate(options: EvaluateOptions) -> int:
    how = options.episodes, options.seed, options.video
    if options.run_dir:
        from virel_tf.evaluate.command import evaluate_run

        result = evaluate_run(options.run_dir, options.policy, *how)
    else:
        from virel_tf.evaluate.command import evaluate_export

        result = evaluate_export(options.policy, *how)
    say(json.dumps(result))
    return 0


def run_export(options: ExportOptions) -> int:
    from virel_tf.export.command import export_run

    say(json.dumps(export_run(options.run_dir, options.policy, options.out, options.format)))
    return 0


def run_benchmark(options: BenchmarkOptions) -> int:
    from virel_tf.benchmark.command import run_benchmark as measure

    say(json.dumps(measure(options.config, options.seconds)))
    return 0


def run_experiment(options: ExperimentOptions, training: dict[str, Any]) -> int:
    from virel_tf.experiments.command import run_experiment as run

    return run(options, training, write_experiment_report)


def write_experiment_report(out: Path) -> tuple[Path, list[str]]:
    from virel_tf.reports.report import write_report

    return write_report([out], out / "report")


def run_latency(options: LatencyOptions) -> int:
    from virel_tf.export.latency import measure_latency

    say(json.dumps(measure_latency(options.run_dir, options.policy, options.seconds)))
    return 0


class Command(NamedTuple):
    """One command: the dataclass whose fields are its flags, and the function that runs it.

    `forwarded` are flags that the command passes to the processes it starts; those that were set
    are the second argument of the function.
    """

    summary: str
    example: str
    options: type
    run: Callable[..., int]
    uses_tensorflow: bool = True
    forwarded: tuple[dataclasses.Field[Any], ...] = ()

    @property
    def flags(self) -> tuple[dataclasses.Field[Any], ...]:
        """All flags."""
        return flags_of(self.options) + self.forwarded


COMMANDS = {
    "train": Command(
        "train a policy, or resume a run (the default command)",
        "virel-tf --env=HalfCheetah-v4 --variant=beta --seed=1",
        Config,
        run_train,
    ),
    "evaluate": Command(
        "play episodes with the policy of a run; prints one line of JSON",
        "virel-tf evaluate --run_dir=runs/HalfCheetah-v4/beta/seed1 --episodes=20",
        EvaluateOptions,
        run_evaluate,
    ),
    "variants": Command(
        "list the algorithms and their components",
        "virel-tf variants",
        NoOptions,
        run_variants,
        uses_tensorflow=False,
    ),
    "theory": Command(
        "compute the paper's theorems and examples; writes a page of tables and figures",
        "virel-tf theory --out=theory",
        TheoryOptions,
        run_theory,
        uses_tensorflow=False,
    ),
    "benchmark": Command(
        "measure the training speed of this machine; prints one line of JSON",
        "virel-tf benchmark --env=Humanoid-v4 --seconds=60",
        BenchmarkOptions,
        run_benchmark,
    ),
    "experiment": Command(
        "train or resume a grid of environments, variants and seeds",
        "virel-tf experiment --envs=Hopper-v4,HalfCheetah-v4 --variants=virel,beta,sac --seeds=5 "
        "--total_steps=300000",
        ExperimentOptions,
        run_experiment,
        uses_tensorflow=False,
        forwarded=TRAINING_FLAGS,
    ),
    "report": Command(
        "compare runs: a page of curves, intervals, tables and commands",
        "virel-tf report runs",
        ReportOptions,
        run_report,
        uses_tensorflow=False,
    ),
    "plot": Command(
        "draw one figure of a report",
        "virel-tf plot runs --env=HalfCheetah-v4 --out=figure.png",
        PlotOptions,
        run_plot,
        uses_tensorflow=False,
    ),
    "pack": Command(
        "add finished runs to a store: one compressed table per environment",
        "virel-tf pack runs --out=data --label=modern",
        PackOptions,
        run_pack,
        uses_tensorflow=False,
    ),
    "export": Command(
        "write a run's policy for TensorFlow Serving, LiteRT or ONNX; prints one line of JSON",
        "virel-tf export --run_dir=runs/HalfCheetah-v4/beta/seed1 --policy=best",
        ExportOptions,
        run_export,
    ),
    "latency": Command(
        "measure the latency of an exported policy; prints one line of JSON",
        "virel-tf latency --run_dir=runs/HalfCheetah-v4/beta/seed1",
        LatencyOptions,
        run_latency,
    ),
}


def say(text: str) -> None:
    """Prints to stdout; a closed pipe (`virel-tf --help | head`) is no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Else the interpreter fails to flush its buffer as it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
