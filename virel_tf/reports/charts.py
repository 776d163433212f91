"""The figures: each function draws one into the axes it is given."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from virel_tf.reports.aggregates import Estimate, trailing_mean
from virel_tf.reports.analysis import PROFILE_THRESHOLDS, Aggregate, Curve
from virel_tf.reports.styles import FAINT, GRID, INK, Look

WIDTH = 4.6  # inches: about the width of a phone's screen, so that text on it keeps its size
LEGEND_LETTERS = 44  # that fit beside a line of that width
SMOOTHED_FROM = 60  # evaluations: from so many on, lines and bands are means of the last ten


def new_figure(
    height: float, columns: int = 1, rows: int = 1, share_x: bool = False
) -> tuple[Figure, np.ndarray]:
    """A figure and its axes [rows, columns], each WIDTH wide; the height is that of one row."""
    figure = Figure(
        figsize=(WIDTH * columns, height * rows), layout="constrained", facecolor="none"
    )
    return figure, figure.subplots(rows, columns, squeeze=False, sharex="col" if share_x else False)


def draw_curves(
    axes: Axes, curves: list[Curve], looks: dict[str, Look], name: str, returns: bool = True
) -> None:
    """Mean over seeds and its 95 % band.

    Returns are smoothed; other quantities may span decades.
    """
    for curve in curves:
        look = looks[curve.group.label]
        smoothed = returns and len(curve.steps) >= SMOOTHED_FROM
        mean, low, high = map(trailing_mean, curve.estimate) if smoothed else curve.estimate
        axes.plot(
            curve.steps,
            mean,
            color=look.colour,
            linestyle=look.line,
            linewidth=1.6,
            marker=look.marker,
            markersize=4.5,
            markevery=[-1],
            label=f"{curve.group.label} (n = {len(curve.values)})",
        )
        axes.fill_between(curve.steps, low, high, color=look.colour, alpha=0.13, linewidth=0)
    values = np.concatenate([curve.values.ravel() for curve in curves])
    if not returns and values.min() > 0 and values.max() > 30 * values.min():
        axes.set_yscale("log")
    axes.xaxis.set_major_formatter(thousands)
    axes.set_ylabel(name)
    tidy(axes)


def thousands(step: float, _: float) -> str:
    """A number of steps on an axis."""
    return f"{step / 1e6:g}M" if step >= 1e6 else f"{step / 1e3:g}k" if step else "0"


def draw_iqm(axes: Axes, result: Aggregate, looks: dict[str, Look]) -> None:
    """Interquartile means and their intervals, one line each."""
    draw_intervals(
        axes, {label: (estimate, looks[label]) for label, estimate in result.iqm.items()}
    )
    axes.set_xlabel("interquartile mean (0: random, 1: published SAC)")


def draw_improvement(axes: Axes, result: Aggregate, looks: dict[str, Look]) -> None:
    """How likely a run of the variant with the best interquartile mean beats one of each other."""
    best = best_label(result)
    draw_intervals(
        axes,
        {
            other: (estimate, looks[other])
            for (one, other), estimate in result.improvement.items()
            if one == best
        },
    )
    axes.axvline(0.5, color=FAINT, linewidth=1, linestyle=":")
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel(f"probability that {best} is better")


def best_label(result: Aggregate) -> str:
    """Of the highest interquartile mean."""
    return max(result.iqm, key=lambda label: result.iqm[label].value)


def draw_intervals(axes: Axes, lines: dict[str, tuple[Estimate, Look]]) -> None:
    """A dot and its interval for each name, the first on top."""
    for place, (estimate, look) in enumerate(lines.values()):
        axes.plot(
            [float(estimate.low), float(estimate.high)],
            [place, place],
            color=look.colour,
            linewidth=5,
            alpha=0.35,
            solid_capstyle="butt",
        )
        axes.plot(
            [float(estimate.value)], [place], color=look.colour, marker=look.marker, markersize=7
        )
    axes.set_yticks(range(len(lines)), list(lines))
    axes.set_ylim(len(lines) - 0.5, -0.5)
    tidy(axes)


def draw_profiles(axes: Axes, result: Aggregate, looks: dict[str, Look]) -> None:
    """The share of runs above each score."""
    for label, estimate in result.profiles.items():
        look = looks[label]
        axes.plot(
            PROFILE_THRESHOLDS,
            estimate.value,
            color=look.colour,
            linestyle=look.line,
            linewidth=1.6,
            drawstyle="steps-post",
            label=label,
        )
        axes.fill_between(
            PROFILE_THRESHOLDS,
            estimate.low,
            estimate.high,
            color=look.colour,
            alpha=0.1,
            linewidth=0,
            step="post",
        )
    axes.set(
        xlabel="score (0: random, 1: published SAC)",
        ylabel="share of runs above",
        ylim=(-0.03, 1.03),
    )
    tidy(axes)


def legends_below(figure: Figure, panels: list[Axes]) -> None:
    """A legend under each panel; the figure grows by what the tallest of each row takes."""
    tallest: dict[int, int] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        labels = [textwrap.fill(label, LEGEND_LETTERS) for label in labels]
        widest = max(len(line) for label in labels for line in label.splitlines())
        columns = max(1, min(len(labels), int(WIDTH / (0.072 * widest + 0.5))))
        under_its_axis = panel.transAxes + ScaledTranslation(0, -0.48, figure.dpi_scale_trans)
        panel.legend(
            handles,
            labels,
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            bbox_transform=under_its_axis,
            ncols=columns,
            frameon=False,
            fontsize=9,
            handlelength=2.6,
            columnspacing=1.2,
            labelcolor=INK,
        )
        place = panel.get_subplotspec()
        assert place is not None  # `new_figure` made it in a grid
        row, lines = place.rowspan.start, sum(label.count("\n") + 1 for label in labels)
        tallest[row] = max(tallest.get(row, 0), math.ceil(lines / columns))
    figure.set_figheight(figure.get_figheight() + 0.19 * sum(tallest.values()))
    figure.align_ylabels()
    # the layout settles in its second pass, which is that of the saved file
    figure.draw_without_rendering()


def tidy(axes: Axes) -> None:
    """No frame, a quiet grid, text in the page's own colours, and the page's ground."""
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, labelsize=9.5, labelcolor=FAINT)
    labels: list[Any] = [axes.xaxis.label, axes.yaxis.label, axes.title]
    for label in labels:
        label.set_color(INK)
        label.set_fontsize(10)
