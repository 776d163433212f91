"""Draws the figures of the studies from the metrics.csv files in this folder, and prints the tables of README.md.

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
RUNS = HERE / "runs" / "HalfCheetah-v4"
SAC = RUNS / "sac"
BEGINNINGS = STUDIES / "initialisation"
# label -> (its runs of virel and beta, those of sac)
INITIALISATIONS = {
    "orthogonal times sqrt(2)": (BEGINNINGS / "orthogonal", SAC / "jaxrl"),
    "Glorot, every layer (default)": (RUNS, STUDIES / "target_entropy"),
    "uniform in ±1/sqrt(fan in)": (BEGINNINGS / "fan_in", BEGINNINGS / "fan_in" / "sac"),
    "last layers near 0": (BEGINNINGS / "near_zero", BEGINNINGS / "near_zero" / "sac")}
# label -> (runs, what is published)
PROTOCOLS = {
    "Tianshou: temperature 0.2, step size 1e-3 (`--preset=tianshou`)": (SAC / "tianshou", "6515 ± 514"),
    "jaxrl: learned temperature, step size 3e-4, target entropy -3, orthogonal initial weights (`--preset=jaxrl`)":
        (SAC / "jaxrl", "5794 ± 437"),
    "the same with Glorot's initial weights (`--preset=haarnoja2018b --target_entropy=-0.5`, `studies/target_entropy`)":
        (STUDIES / "target_entropy", ""),
    "the paper of SAC: as the line above, with a target entropy of -6 (`--preset=haarnoja2018b`)":
        (SAC / "haarnoja2018b", "")}


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
    axes.plot(steps, paper, color="black", label="buffer: 4096 fresh transitions per update (paper)")
    axes.plot(steps, running, "--", color="#c44e52", label="running: recent batches (default)")
    axes.set(xlabel="environment steps", ylabel="epsilon", title="HalfCheetah-v4, beta, seed 1")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(HERE / "epsilon.png", dpi=110)
    known = ~np.isnan(paper)
    deviation = np.abs(running[known] / paper[known] - 1)
    print(f"epsilon: median deviation {np.median(deviation):.3%}, greatest {deviation.max():.3%}, "
          f"correlation {np.corrcoef(paper[known], running[known])[0, 1]:.4f}")


def draw_initialisation() -> None:
    """HalfCheetah-v4 by how the networks start: every run a line."""
    figure = Figure(figsize=(12, 3.4), layout="constrained")
    for axes, variant in zip(figure.subplots(1, 3), ("sac", "beta", "virel"), strict=True):
        colours = "#c44e52", "#55a868", "#4c72b0", "#8c8c8c"
        for (label, (folder, of_sac)), colour in zip(INITIALISATIONS.items(), colours, strict=True):
            runs = of_sac if variant == "sac" else folder / variant
            for i, path in enumerate(sorted(runs.glob("seed*/metrics.csv"))):
                axes.plot(column(path, "step") / 1000, column(path, "eval_return"), color=colour, linewidth=1,
                          label=None if i else label)
        axes.set(title=f"HalfCheetah-v4, {variant}", xlabel="environment steps (thousands)", ylabel="evaluation return")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="x-small")
    figure.savefig(HERE / "initialisation.png", dpi=110)


def print_scores() -> None:
    """The final returns of the report, as a Markdown table."""
    print("| environment, steps | variant | seeds | mean (95 % interval) | where |\n|---|---|---|---|---|")
    for path in sorted((HERE / "report" / "tables").glob("scores-*.csv")):
        env = path.stem.removeprefix("scores-")
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                digits = 0 if abs(float(row["mean"])) >= 100 else 1
                mean, low, high = (f"{float(row[name]):.{digits}f}" if row[name] else ""
                                   for name in ("mean", "95 % low", "95 % high"))
                interval = f" ({low} to {high})" if low else ""
                print(f"| {env}, {int(row['steps']):,} | {row['variant']} | {row['seeds']} | {mean}{interval} "
                      f"| {row['source']} |")


def print_protocols() -> None:
    """sac on HalfCheetah-v4 by the settings it was published with."""
    print("| protocol | published | here, last ten evaluations | here, the evaluation at 100,000 |\n|---|---|---|---|")
    for protocol, (folder, published) in PROTOCOLS.items():
        runs = [column(path, "eval_return") for path in sorted(folder.glob("seed*/metrics.csv"))]
        told = []
        for values in ([run[-10:].mean() for run in runs], [run[-1] for run in runs]):
            told.append(f"{', '.join(f'{value:.0f}' for value in values)}: {np.mean(values):.0f} ± "
                        f"{np.std(values, ddof=1):.0f}")
        print(f"| {protocol} | {published} | {' | '.join(told)} |")


def print_coupling() -> None:
    """What options of the critic do to epsilon and what follows it: means over each run's last ten evaluations."""
    print("| critic | --lambda_rule | epsilon | temperature | entropy | return |\n|---|---|---|---|---|---|")
    for path in sorted((STUDIES / "coupling").glob("*/*/metrics.csv")):
        means = (column(path, name)[-10:].mean() for name in ("epsilon", "temperature", "entropy", "eval_return"))
        epsilon, temperature, entropy, return_ = means
        print(f"| {path.parts[-3]} | {path.parts[-2]} | {epsilon:.3g} | {temperature:.2g} | {entropy:.1f} "
              f"| {return_:.0f} |")


if __name__ == "__main__":
    draw_epsilon()
    draw_initialisation()
    print_scores()
    print_protocols()
    print_coupling()
