"""The learning curve of a run as a picture."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from virel_tf.files import atomic_write

BLUE, ORANGE, GREEN, GREY = "#2563a8", "#d9730d", "#3a8f5c", "#555555"
Row = dict[str, Any]


def draw_learning_curve(rows: list[Row], path: Path, title: str) -> None:
    """Draws evaluation return against environment steps.

    Where the rows have them, temperature and entropy too.

    Cells may be None or missing; the PNG replaces an older one at once.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    below = [name for name in ("epsilon", "temperature", "entropy") if len(_points(rows, name)[0])]
    figure = Figure(figsize=(8, 5.8 if below else 4.4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(
        2 if below else 1,
        1,
        sharex=True,
        squeeze=False,
        gridspec_kw={"height_ratios": [3, 1.15] if below else [1]},
    )[:, 0]
    panels[0].set_title(title, loc="left", fontsize=11, fontweight="bold")
    _draw_returns(panels[0], rows)
    if below:
        _draw_temperature(panels[1], rows, below)
    for panel in panels:
        _tidy(panel)
        panel.xaxis.set_major_formatter(lambda step, _: f"{step / 1000:g}k" if step else "0")
    panels[-1].set_xlabel("environment steps", fontsize=9.5)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    atomic_write(path, picture.getvalue())


def _draw_returns(panel: Any, rows: list[Row]) -> None:
    steps, returns = _points(rows, "eval_return")
    panel.set_ylabel("evaluation return", fontsize=9.5)
    if not len(steps):
        panel.text(
            0.5, 0.5, "no evaluation yet", transform=panel.transAxes, ha="center", color=GREY
        )
        return
    low_steps, low = _points(rows, "eval_return_min")
    high_steps, high = _points(rows, "eval_return_max")
    if len(low_steps) and np.array_equal(low_steps, high_steps):
        panel.fill_between(
            low_steps, low, high, color=BLUE, alpha=0.13, linewidth=0, label="worst to best episode"
        )
    window = smoothing_window(len(steps))
    if window == 1:  # few points: let each be seen
        panel.plot(
            steps,
            returns,
            color=BLUE,
            linewidth=1.4,
            marker="o",
            markersize=3.5,
            label="each evaluation",
        )
    else:
        panel.plot(steps, returns, color=BLUE, alpha=0.45, linewidth=0.8, label="each evaluation")
        panel.plot(
            steps,
            smooth(returns, window),
            color=BLUE,
            linewidth=2,
            label=f"mean of {window} evaluations",
        )
    panel.set_xlim(min(steps[0], 0), max(steps[-1], 1) * 1.01)
    panel.legend(frameon=False, fontsize=8.5, loc="best")


def _draw_temperature(panel: Any, rows: list[Row], names: list[str]) -> None:
    """Epsilon and temperature on the left, both over decades if they span many.

    Entropy on the right.
    """
    lines = []
    marker = "." if len(rows) == 1 else ""
    left = [
        (name, colour)
        for name, colour in (("epsilon", ORANGE), ("temperature", GREY))
        if name in names
    ]
    for name, colour in left:
        lines += panel.plot(
            *_points(rows, name), color=colour, linewidth=1.2, marker=marker, label=name
        )
    values = np.concatenate([_points(rows, name)[1] for name, _ in left]) if left else np.ones(1)
    if values.min() > 0 and values.max() > 30 * values.min():
        panel.set_yscale("log")
    panel.set_ylabel(" / ".join(name for name, _ in left), fontsize=9.5)
    if "entropy" in names:
        right = panel.twinx() if left else panel
        lines += right.plot(
            *_points(rows, "entropy"), color=GREEN, linewidth=1.2, marker=marker, label="entropy"
        )
        right.set_ylabel("entropy", color=GREEN, fontsize=9.5)
        right.tick_params(axis="y", colors=GREEN, length=0, labelsize=9)
        right.spines[["top", "right"]].set_visible(False)
        right.spines[["left", "bottom"]].set_color("#bbbbbb")
    panel.legend(
        handles=lines,
        frameon=False,
        fontsize=8.5,
        ncols=len(lines),
        loc="lower right",
        bbox_to_anchor=(1, 0.98),
        borderaxespad=0,
    )


def _tidy(panel: Any) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color("#bbbbbb")
    panel.grid(color="#e6e6e6", linewidth=0.7)
    panel.set_axisbelow(True)
    panel.tick_params(which="both", length=0, labelsize=9)


def _points(rows: list[Row], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of a column, where it has finite ones."""
    pairs = [
        (row["step"], row[name])
        for row in rows
        if row.get(name) is not None and math.isfinite(row[name])
    ]
    steps, values = np.array(pairs, float).reshape(-1, 2).T
    return steps, values


def smoothing_window(count: int) -> int:
    """How many evaluations to average.

    About a twentieth of them, an odd number; 1 while there are few.
    """
    return 1 if count < 10 else max(3, count // 20 | 1)


def smooth(values: np.ndarray, window: int) -> np.ndarray:
    """Mean over a centred window, cut off (evenly on both sides) at the ends."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    reach = np.minimum(window // 2, np.minimum(index, len(values) - 1 - index))
    return (total[index + reach + 1] - total[index - reach]) / (2 * reach + 1)
