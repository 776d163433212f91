"""Draws the figures of this folder from the store in data/, and prints the tables of README.md.

python results/figures.py
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from virel_tf.reports.analysis import scores_table
from virel_tf.reports.figures import curves_picture
from virel_tf.reports.published import read_anchors
from virel_tf.reports.runs import read_experiment
from virel_tf.reports.store import StoredRun, read_store

HERE = Path(__file__).parent
DATA = HERE / "data"
ANCHORS = HERE.parent / "virel_tf" / "reports" / "published.csv"
CHEETAH = "HalfCheetah-v4"
BEGINNINGS = "studies/initialisation"
# name -> (label of its runs of virel and beta; label and preset of those of sac)
INITIALISATIONS = {
    "orthogonal times sqrt(2)": (f"{BEGINNINGS}/orthogonal", "paper", "jaxrl"),
    "Glorot, every layer (default)": ("paper", "studies/target_entropy", "haarnoja2018b"),
    "uniform in ±1/sqrt(fan in)": (f"{BEGINNINGS}/fan_in", f"{BEGINNINGS}/fan_in", "haarnoja2018b"),
    "last layers near 0": (
        f"{BEGINNINGS}/near_zero",
        f"{BEGINNINGS}/near_zero",
        "haarnoja2018b",
    ),
}
# protocol -> (label and preset of its runs, what is published)
PROTOCOLS = {
    "Tianshou: temperature 0.2, step size 1e-3 (`--preset=tianshou`)": (
        ("paper", "tianshou"),
        "6515 ± 514",
    ),
    "jaxrl: learned temperature, step size 3e-4, target entropy -3, orthogonal initial weights "
    "(`--preset=jaxrl`)": (
        ("paper", "jaxrl"),
        "5794 ± 437",
    ),
    "the same with Glorot's initial weights (`--preset=haarnoja2018b --target_entropy=-0.5`, "
    "`studies/target_entropy`)": (
        ("studies/target_entropy", "haarnoja2018b"),
        "",
    ),
    "the paper of SAC: as the line above, with a target entropy of -6 (`--preset=haarnoja2018b`)": (
        ("paper", "haarnoja2018b"),
        "",
    ),
}


def runs_of(label: str, **settings: str) -> list[StoredRun]:
    """The runs with a label and such settings, by environment and seed."""
    found = [
        run
        for run in read_store(DATA, label)
        if all(run.settings[name] == value for name, value in settings.items())
    ]
    return sorted(found, key=lambda run: (run.settings["env"], run.settings["seed"]))


def column(run: StoredRun, name: str) -> np.ndarray:
    """A column of metrics.csv; what is empty is not a number."""
    place = run.columns.index(name)
    return np.array([float(cells[place] or "nan") for cells in run.cells])


def save(figure: Figure, name: str, dpi: int) -> None:
    """Writes a figure beside this file, with 256 colours, which makes it a third as large."""
    data = io.BytesIO()
    figure.savefig(data, dpi=dpi, facecolor="white")
    with Image.open(data) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
            HERE / f"{name}.png", optimize=True
        )


def draw_curves() -> None:
    """Learning curves with the settings of the paper and of libraries."""
    experiment = read_experiment([DATA], "paper")
    save(curves_picture(experiment, experiment.envs).figure, "curves", dpi=80)


def draw_epsilon() -> None:
    """The two estimates of epsilon on one run."""
    (run,) = runs_of("studies/epsilon")
    steps, paper, running = (column(run, name) for name in ("step", "epsilon", "running_epsilon"))
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(
        steps, paper, color="black", label="buffer: 4096 fresh transitions per update (paper)"
    )
    axes.plot(steps, running, "--", color="#c44e52", label="running: recent batches (default)")
    axes.set(xlabel="environment steps", ylabel="epsilon", title="HalfCheetah-v4, beta, seed 1")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    save(figure, "epsilon", dpi=110)
    known = ~np.isnan(paper)
    deviation = np.abs(running[known] / paper[known] - 1)
    print(
        f"epsilon: median deviation {np.median(deviation):.3%}, greatest {deviation.max():.3%}, "
        f"correlation {np.corrcoef(paper[known], running[known])[0, 1]:.4f}"
    )


def draw_initialisation() -> None:
    """HalfCheetah-v4 by how the networks start: every run a line."""
    figure = Figure(figsize=(12, 3.4), layout="constrained")
    for axes, variant in zip(figure.subplots(1, 3), ("sac", "beta", "virel"), strict=True):
        colours = "#c44e52", "#55a868", "#4c72b0", "#8c8c8c"
        for (name, (label, *of_sac)), colour in zip(INITIALISATIONS.items(), colours, strict=True):
            where, preset = of_sac if variant == "sac" else (label, "paper")
            runs = runs_of(where, env=CHEETAH, variant=variant, preset=preset)
            for i, run in enumerate(runs):
                axes.plot(
                    column(run, "step") / 1000,
                    column(run, "eval_return"),
                    color=colour,
                    linewidth=1,
                    label=None if i else name,
                )
        axes.set(
            title=f"HalfCheetah-v4, {variant}",
            xlabel="environment steps (thousands)",
            ylabel="evaluation return",
        )
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="x-small")
    save(figure, "initialisation", dpi=90)


def modern_runs() -> dict[str, list[StoredRun]]:
    """environment -> each seed of beta with the default settings."""
    found: dict[str, list[StoredRun]] = {}
    for run in runs_of("modern", variant="beta"):
        found.setdefault(run.settings["env"], []).append(run)
    return found


def published(env: str, algorithm: str) -> dict[int, float]:
    """steps -> return in the same version of the environment.

    Other versions have other observations.
    """
    wanted = (env.removesuffix("-v4"), algorithm, "v4")
    with open(ANCHORS, newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        int(row["steps"]): float(row["mean"])
        for row in rows
        if (row["env"], row["algorithm"], row["version"]) == wanted
    }


def draw_modern() -> None:
    """beta with the default settings: every seed a line, published returns as points."""
    runs = modern_runs()
    figure = Figure(figsize=(3.1 * len(runs), 3), layout="constrained")
    for axes, (env, seeds) in zip(
        figure.subplots(1, len(runs), squeeze=False)[0], runs.items(), strict=True
    ):
        for i, run in enumerate(seeds):
            axes.plot(
                column(run, "step") / 1000,
                column(run, "eval_return"),
                color="#55a868",
                linewidth=1.2,
                label=None if i else "beta, each seed",
            )
        last = max(column(run, "step")[-1] for run in seeds)
        for algorithm, colour in (("CrossQ", "#c44e52"), ("SimbaV2", "#4c72b0")):
            points = {
                steps: value
                for steps, value in published(env, algorithm).items()
                if 0 < steps <= last
            }
            if points:
                axes.plot(
                    [steps / 1000 for steps in points],
                    list(points.values()),
                    "o",
                    color=colour,
                    label=f"{algorithm}, published",
                )
        axes.set(title=env, xlabel="environment steps (thousands)")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="x-small")
    save(figure, "modern", dpi=100)


def print_modern() -> None:
    """The returns of the default settings.

    The mean of the last three evaluations up to some steps.
    """
    print("| environment | steps | each seed | mean | CrossQ, published | SimbaV2, published |")
    print("|---|---|---|---|---|---|")
    for env, seeds in modern_runs().items():
        for steps in (5_000, 30_000, 50_000, 100_000, 300_000):
            ends = [
                mean_of_last_three(run, steps) for run in seeds if column(run, "step")[-1] >= steps
            ]
            if not ends:
                continue
            beside = [published(env, name).get(steps) for name in ("CrossQ", "SimbaV2")]
            told = " | ".join(f"{value:.0f}" if value is not None else "" for value in beside)
            each = ", ".join(f"{end:.0f}" for end in ends)
            print(f"| {env} | {steps:,} | {each} | {np.mean(ends):.0f} | {told} |")


def mean_of_last_three(run: StoredRun, steps: int) -> float:
    """Of the evaluations up to `steps`."""
    return float(column(run, "eval_return")[column(run, "step") <= steps][-3:].mean())


def print_scores() -> None:
    """The final returns of the report, as a Markdown table."""
    print(
        "| environment, steps | variant | seeds | mean (95 % interval) | where"
        " |\n|---|---|---|---|---|"
    )
    experiment, anchors = read_experiment([DATA], "paper"), read_anchors()
    for env in experiment.envs:
        table = scores_table(experiment, env, anchors)
        for row in (dict(zip(table.columns, cells, strict=True)) for cells in table.rows):
            digits = 0 if abs(row["mean"]) >= 100 else 1
            mean, low, high = (
                f"{row[name]:.{digits}f}" if row[name] is not None else ""
                for name in ("mean", "95 % low", "95 % high")
            )
            interval = f" ({low} to {high})" if low not in ("", "nan") else ""
            variant = row["variant"].removesuffix(", preset=paper")
            print(
                f"| {env}, {row['steps']:,} | {variant} | {row['seeds']} |"
                f" {mean}{interval} | {row['source']} |"
            )


def print_protocols() -> None:
    """sac on HalfCheetah-v4 by the settings it was published with."""
    print(
        "| protocol | published | here, last ten evaluations | here, the evaluation at 100,000"
        " |\n|---|---|---|---|"
    )
    for protocol, ((label, preset), published) in PROTOCOLS.items():
        found = runs_of(label, env=CHEETAH, variant="sac", preset=preset)
        runs = [column(run, "eval_return") for run in found]
        told = []
        for values in ([run[-10:].mean() for run in runs], [run[-1] for run in runs]):
            told.append(
                f"{', '.join(f'{value:.0f}' for value in values)}: {np.mean(values):.0f} ± "
                f"{np.std(values, ddof=1):.0f}"
            )
        print(f"| {protocol} | {published} | {' | '.join(told)} |")


def print_coupling() -> None:
    """What options of the critic do to epsilon and what follows it.

    Means over each run's last ten evaluations.
    """
    print(
        "| critic | --lambda_rule | epsilon | temperature | entropy | return"
        " |\n|---|---|---|---|---|---|"
    )
    for run in sorted(runs_of("studies/coupling"), key=lambda run: run.label.split("/")):
        means = (
            column(run, name)[-10:].mean()
            for name in ("epsilon", "temperature", "entropy", "eval_return")
        )
        epsilon, temperature, entropy, return_ = means
        critic, rule = run.label.split("/")[2:]
        print(
            f"| {critic} | {rule} | {epsilon:.3g} | {temperature:.2g} |"
            f" {entropy:.1f} | {return_:.0f} |"
        )


if __name__ == "__main__":
    draw_curves()
    draw_epsilon()
    draw_initialisation()
    draw_modern()
    print_modern()
    print_scores()
    print_protocols()
    print_coupling()
