"""Draws the figures of the studies and prints the tables of README.md.

Both are made from the metrics.csv files in this folder.

virel-tf report results/runs --out=results/report --title="The published runs"
python results/figures.py
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

HERE = Path(__file__).parent
STUDIES = HERE / "studies"
ANCHORS = HERE.parent / "virel_tf" / "reports" / "published.csv"
RUNS = HERE / "runs" / "HalfCheetah-v4"
SAC = RUNS / "sac"
BEGINNINGS = STUDIES / "initialisation"
# label -> (its runs of virel and beta, those of sac)
INITIALISATIONS = {
    "orthogonal times sqrt(2)": (BEGINNINGS / "orthogonal", SAC / "jaxrl"),
    "Glorot, every layer (default)": (RUNS, STUDIES / "target_entropy"),
    "uniform in ±1/sqrt(fan in)": (BEGINNINGS / "fan_in", BEGINNINGS / "fan_in" / "sac"),
    "last layers near 0": (BEGINNINGS / "near_zero", BEGINNINGS / "near_zero" / "sac"),
}
# label -> (runs, what is published)
PROTOCOLS = {
    "Tianshou: temperature 0.2, step size 1e-3 (`--preset=tianshou`)": (
        SAC / "tianshou",
        "6515 ± 514",
    ),
    "jaxrl: learned temperature, step size 3e-4, target entropy -3, orthogonal initial weights "
    "(`--preset=jaxrl`)": (
        SAC / "jaxrl",
        "5794 ± 437",
    ),
    "the same with Glorot's initial weights (`--preset=haarnoja2018b --target_entropy=-0.5`, "
    "`studies/target_entropy`)": (
        STUDIES / "target_entropy",
        "",
    ),
    "the paper of SAC: as the line above, with a target entropy of -6 (`--preset=haarnoja2018b`)": (
        SAC / "haarnoja2018b",
        "",
    ),
}


def column(path: Path, name: str) -> np.ndarray:
    with open(path, newline="") as file:
        return np.array([float(row[name] or "nan") for row in csv.DictReader(file)])


def draw_epsilon() -> None:
    """The two estimates of epsilon on one run."""
    path = STUDIES / "epsilon" / "metrics.csv"
    if not path.exists():
        return
    steps, paper, running = (column(path, name) for name in ("step", "epsilon", "running_epsilon"))
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(
        steps, paper, color="black", label="buffer: 4096 fresh transitions per update (paper)"
    )
    axes.plot(steps, running, "--", color="#c44e52", label="running: recent batches (default)")
    axes.set(xlabel="environment steps", ylabel="epsilon", title="HalfCheetah-v4, beta, seed 1")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(HERE / "epsilon.png", dpi=110)
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
        for (label, (folder, of_sac)), colour in zip(INITIALISATIONS.items(), colours, strict=True):
            runs = of_sac if variant == "sac" else folder / variant
            for i, path in enumerate(sorted(runs.glob("seed*/metrics.csv"))):
                axes.plot(
                    column(path, "step") / 1000,
                    column(path, "eval_return"),
                    color=colour,
                    linewidth=1,
                    label=None if i else label,
                )
        axes.set(
            title=f"HalfCheetah-v4, {variant}",
            xlabel="environment steps (thousands)",
            ylabel="evaluation return",
        )
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="x-small")
    figure.savefig(HERE / "initialisation.png", dpi=110)


def modern_runs() -> dict[str, list[Path]]:
    """environment -> metrics.csv of each seed of beta with the default settings."""
    found: dict[str, list[Path]] = {}
    for path in sorted((HERE / "runs").glob("*/beta/modern/seed*/metrics.csv")):
        found.setdefault(path.parents[3].name, []).append(path)
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
    for axes, (env, paths) in zip(
        figure.subplots(1, len(runs), squeeze=False)[0], runs.items(), strict=True
    ):
        for i, path in enumerate(paths):
            axes.plot(
                column(path, "step") / 1000,
                column(path, "eval_return"),
                color="#55a868",
                linewidth=1.2,
                label=None if i else "beta, each seed",
            )
        last = max(column(path, "step")[-1] for path in paths)
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
    figure.savefig(HERE / "modern.png", dpi=100)


def print_modern() -> None:
    """The returns of the default settings.

    The mean of the last three evaluations up to some steps.
    """
    print("| environment | steps | each seed | mean | CrossQ, published | SimbaV2, published |")
    print("|---|---|---|---|---|---|")
    for env, paths in modern_runs().items():
        for steps in (5_000, 30_000, 50_000, 100_000, 300_000):
            ends = [
                mean_of_last_three(path, steps)
                for path in paths
                if column(path, "step")[-1] >= steps
            ]
            if not ends:
                continue
            beside = [published(env, name).get(steps) for name in ("CrossQ", "SimbaV2")]
            told = " | ".join(f"{value:.0f}" if value is not None else "" for value in beside)
            each = ", ".join(f"{end:.0f}" for end in ends)
            print(f"| {env} | {steps:,} | {each} | {np.mean(ends):.0f} | {told} |")


def mean_of_last_three(path: Path, steps: int) -> float:
    """Of the evaluations up to `steps`."""
    return float(column(path, "eval_return")[column(path, "step") <= steps][-3:].mean())


def print_scores() -> None:
    """The final returns of the report, as a Markdown table."""
    print(
        "| environment, steps | variant | seeds | mean (95 % interval) | where"
        " |\n|---|---|---|---|---|"
    )
    for path in sorted((HERE / "report" / "tables").glob("scores-*.csv")):
        env = path.stem.removeprefix("scores-")
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                digits = 0 if abs(float(row["mean"])) >= 100 else 1
                mean, low, high = (
                    f"{float(row[name]):.{digits}f}" if row[name] else ""
                    for name in ("mean", "95 % low", "95 % high")
                )
                interval = f" ({low} to {high})" if low else ""
                print(
                    f"| {env}, {int(row['steps']):,} | {row['variant']} | {row['seeds']} |"
                    f" {mean}{interval} | {row['source']} |"
                )


def print_protocols() -> None:
    """sac on HalfCheetah-v4 by the settings it was published with."""
    print(
        "| protocol | published | here, last ten evaluations | here, the evaluation at 100,000"
        " |\n|---|---|---|---|"
    )
    for protocol, (folder, published) in PROTOCOLS.items():
        runs = [column(path, "eval_return") for path in sorted(folder.glob("seed*/metrics.csv"))]
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
    for path in sorted((STUDIES / "coupling").glob("*/*/metrics.csv")):
        means = (
            column(path, name)[-10:].mean()
            for name in ("epsilon", "temperature", "entropy", "eval_return")
        )
        epsilon, temperature, entropy, return_ = means
        print(
            f"| {path.parts[-3]} | {path.parts[-2]} | {epsilon:.3g} | {temperature:.2g} |"
            f" {entropy:.1f} | {return_:.0f} |"
        )


if __name__ == "__main__":
    draw_epsilon()
    draw_initialisation()
    draw_modern()
    print_modern()
    print_scores()
    print_protocols()
    print_coupling()
