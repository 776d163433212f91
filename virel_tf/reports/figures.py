"""The figures of a report by name, and their files.

PNG, PDF, and SVG that follows a page's colours.
"""

from __future__ import annotations

import io
import math
import re
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from virel_tf.reports import charts
from virel_tf.reports.analysis import Aggregate, Curve, curves_of, follows_epsilon
from virel_tf.reports.runs import Experiment
from virel_tf.reports.styles import LIGHT_PAGE, PALETTE, Look, looks_of

PANELS_ACROSS = 3  # more in a row would be too small to read in a text
TEMPERATURE_COLUMNS = ("epsilon", "temperature", "entropy")


class Picture(NamedTuple):
    """A figure and what it shows, in words."""

    name: str
    title: str
    figure: Figure


def curves_picture(experiment: Experiment, envs: list[str]) -> Picture:
    """Learning curves, environment by environment."""
    looks = looks_of(experiment.labels)
    columns = min(len(envs), PANELS_ACROSS)
    figure, axes = charts.new_figure(3.0, columns, rows=math.ceil(len(envs) / columns))
    panels = list(axes.flat)
    for panel, env in zip(panels, envs, strict=False):
        charts.draw_curves(
            panel, curves_of(experiment.of(env), "eval_return"), looks, "evaluation return"
        )
        panel.set(title=env, xlabel="environment steps")
    for panel in panels[len(envs) :]:
        panel.set_axis_off()
    return finished("curves", "Learning curves", envs, figure, panels[: len(envs)])


def epsilon_picture(experiment: Experiment, envs: list[str]) -> Picture | None:
    """Epsilon, temperature and entropy where the temperature follows epsilon.

    None where it never does.
    """
    looks = looks_of(experiment.labels)
    columns = {env: temperature_curves(experiment, env) for env in envs}
    columns = {env: curves for env, curves in columns.items() if curves}
    if not columns:
        return None
    rows = max(map(len, columns.values()))
    figure, axes = charts.new_figure(1.7, columns=len(columns), rows=rows, share_x=True)
    for column, (env, curves) in enumerate(columns.items()):
        for panel, (name, lines) in zip(axes[:, column], curves.items(), strict=False):
            charts.draw_curves(panel, lines, looks, name, returns=False)
        axes[0, column].set_title(env)
        axes[-1, column].set_xlabel("environment steps")
    return finished(
        "epsilon", "Residual error, temperature and entropy", list(columns), figure, list(axes[-1])
    )


def temperature_curves(experiment: Experiment, env: str) -> dict[str, list[Curve]]:
    """Column -> curves, of the groups whose temperature follows epsilon."""
    groups = [group for group in experiment.of(env) if follows_epsilon(group)]
    curves = {column: curves_of(groups, column) for column in TEMPERATURE_COLUMNS}
    return {column: lines for column, lines in curves.items() if lines}


def finished(name: str, title: str, envs: list[str], figure: Figure, panels: list[Axes]) -> Picture:
    """The figure with legends under these panels, and its name.

    The name has the environment's too where there is one alone.
    """
    charts.legends_below(figure, panels)
    if len(envs) == 1:
        name = f"{name}-{envs[0].replace('/', '_')}"
    return Picture(name, f"{title} in {', '.join(envs)}", figure)


def aggregate_pictures(experiment: Experiment, result: Aggregate) -> dict[str, Picture]:
    """iqm, profiles and, with two variants or more, improvement."""
    looks: dict[str, Look] = looks_of(experiment.labels)
    where = ", ".join(result.envs)
    pictures = {}
    for kind, title, draw, lines in (
        ("iqm", "Interquartile mean of scores", charts.draw_iqm, len(result.iqm)),
        ("profiles", "Performance profiles", charts.draw_profiles, 9),
        ("improvement", "Probability of improvement", charts.draw_improvement, len(result.iqm) - 1),
    ):
        if lines:
            figure, axes = charts.new_figure(3.0 if kind == "profiles" else 0.8 + 0.28 * lines)
            draw(axes[0, 0], result, looks)
            if kind == "profiles":
                charts.legends_below(figure, [axes[0, 0]])
            pictures[kind] = Picture(kind, f"{title} over {where}", figure)
    return pictures


def file_of(figure: Figure, kind: str) -> bytes:
    """The figure as png, svg or pdf, on the light page's ground."""
    data = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "virel_tf"}):
        figure.savefig(
            data,
            format=kind,
            dpi=150,
            facecolor=LIGHT_PAGE,
            metadata=(
                {"Date": None}
                if kind == "svg"
                else {"CreationDate": None}
                if kind == "pdf"
                else None
            ),
        )
    return data.getvalue()


def inline_svg(picture: Picture) -> str:
    """The figure as an element of a page.

    Its colours are variables of the page, its ids its own.
    """
    data = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": picture.name}):
        picture.figure.savefig(data, format="svg", facecolor="none", metadata={"Date": None})
    svg = data.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    prefix = re.sub(r"\W", "-", picture.name)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    for light in PALETTE:
        svg = svg.replace(light, f"var(--{light[1:]})")
    return re.sub(
        r'(<svg[^>]*?) width="[^"]*"',
        r"\1",
        re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1),
        count=1,
    )
