"""Draws the figures of this folder from the metrics.csv files in it, and prints the table of README.md.

    python results/figures.py
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

HERE = Path(__file__).parent
COLOURS = {"beta": "#c44e52", "virel": "#4c72b0", "virel1": "#64b5cd", "virel2": "#8172b3", "sac": "#55a868",
           "sac_v1": "#a8b954", "ddpg": "#8c613c", "mpo": "#dd8452"}


STUDIES = ("epsilon", "initialisation", "m_steps")  # folders that are not an environment's
INITIALISATIONS = {"Glorot, every layer (default)": HERE / "HalfCheetah-v4",
                   "uniform in ±1/sqrt(fan in)": HERE / "initialisation" / "fan_in",
                   "last layers near 0": HERE / "initialisation" / "near_zero"}


def column(path: Path, name: str) -> np.ndarray:
    with open(path, newline="") as file:
        return np.array([float(row[name] or "nan") for row in csv.DictReader(file)])


def environments() -> list[str]:
    return sorted(path.name for path in HERE.iterdir() if path.is_dir() and path.name not in STUDIES)


def print_table() -> None:
    """Per environment and variant, each seed's mean over its last ten evaluations and its last one."""
    print("| environment | variant | steps | last ten evaluations, by seed | mean ± std | last evaluation, by seed |")
    print("|---|---|---|---|---|---|")
    for env in environments():
        for variant in COLOURS:
            files = sorted((HERE / env / variant).glob("seed*/metrics.csv"))
            if not files:
                continue
            last_ten = [column(path, "eval_return")[-10:].mean() for path in files]
            last = [column(path, "eval_return")[-1] for path in files]
            steps = ", ".join(sorted({f"{column(path, 'step')[-1]:.0f}" for path in files}))
            spread = f" ± {np.std(last_ten):.0f}" if len(files) > 1 else ""
            print(f"| {env} | {variant} | {steps} | {', '.join(f'{x:.0f}' for x in last_ten)} | "
                  f"{np.mean(last_ten):.0f}{spread} | {', '.join(f'{x:.0f}' for x in last)} |")


def draw_curves() -> None:
    """Mean over seeds, and the range from the worst to the best of them, per environment and variant."""
    envs = environments()
    figure = Figure(figsize=(4.2 * len(envs), 3.4), layout="constrained")
    for axes, env in zip(np.atleast_1d(figure.subplots(1, len(envs))), envs, strict=True):
        for variant, colour in COLOURS.items():
            files = sorted((HERE / env / variant).glob("seed*/metrics.csv"))
            if not files:
                continue
            length = min(len(column(path, "step")) for path in files)
            steps = column(files[0], "step")[:length] / 1000
            returns = np.stack([column(path, "eval_return")[:length] for path in files])
            axes.plot(steps, returns.mean(axis=0), color=colour, label=f"{variant} (n = {len(files)})")
            axes.fill_between(steps, returns.min(axis=0), returns.max(axis=0), color=colour, alpha=0.2, linewidth=0)
        axes.set(title=env, xlabel="environment steps (thousands)", ylabel="evaluation return")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="x-small", ncols=2)
    figure.savefig(HERE / "curves.png", dpi=110)


def draw_epsilon() -> None:
    """The two estimates of epsilon on one run."""
    path = HERE / "epsilon" / "metrics.csv"
    if not path.exists():
        return
    steps, paper, running = (column(path, name) for name in ("step", "epsilon", "running_epsilon"))
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(steps, paper, color="black", label="buffer: 4096 fresh transitions per update (paper)")
    axes.plot(steps, running, "--", color=COLOURS["beta"], label="running: recent batches (default)")
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
        for (label, folder), colour in zip(INITIALISATIONS.items(), ("#55a868", "#4c72b0", "#8c8c8c"), strict=True):
            for i, path in enumerate(sorted((folder / variant).glob("seed*/metrics.csv"))):
                axes.plot(column(path, "step") / 1000, column(path, "eval_return"), color=colour, linewidth=1,
                          label=None if i else label)
        axes.set(title=f"HalfCheetah-v4, {variant}", xlabel="environment steps (thousands)", ylabel="evaluation return")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="x-small")
    figure.savefig(HERE / "initialisation.png", dpi=110)


if __name__ == "__main__":
    print_table()
    draw_curves()
    draw_epsilon()
    draw_initialisation()
