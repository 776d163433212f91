"""`virel-tf plot`: one figure of a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from virel_tf.errors import ConfigError
from virel_tf.files import atomic_write, ensure_writable
from virel_tf.options import did_you_mean
from virel_tf.reports.analysis import aggregate, follows_epsilon
from virel_tf.reports.figures import (
    Picture,
    aggregate_pictures,
    curves_picture,
    epsilon_picture,
    file_of,
)
from virel_tf.reports.published import read_anchors
from virel_tf.reports.runs import Experiment, read_experiment

if TYPE_CHECKING:
    from virel_tf.experiments.options import PlotOptions


def write_plot(options: PlotOptions) -> tuple[Path, list[str]]:
    """Draws the figure into the file, whose name says the format.

    Returns its path and the missing cells in words.
    """
    experiment = read_experiment([Path(name) for name in options.runs], options.label)
    if options.env:
        if options.env not in experiment.envs:
            raise ConfigError(
                "env",
                f"there is no run of {options.env!r}; it must be one of "
                f"{', '.join(experiment.envs)}" + did_you_mean(options.env, experiment.envs),
            )
        experiment = Experiment(
            experiment.of(options.env),
            [cell for cell in experiment.missing if cell.env == options.env],
        )
    picture = draw(experiment, options)
    path = Path(options.out)
    ensure_writable(path.parent)
    atomic_write(path, file_of(picture.figure, path.suffix.lower()[1:]))
    return path, [cell.words for cell in experiment.missing]


def draw(experiment: Experiment, options: PlotOptions) -> Picture:
    """The figure asked for; ConfigError where the runs do not have what it shows."""
    if options.figure == "curves":
        return curves_picture(experiment, experiment.envs)
    if options.figure == "epsilon":
        picture = epsilon_picture(experiment, experiment.envs)
        if picture is None and any(map(follows_epsilon, experiment.groups)):
            raise ConfigError("figure", "epsilon: no run here has logged epsilon yet")
        if picture is None:
            raise ConfigError(
                "figure",
                "epsilon: no run here has a temperature that follows epsilon, as beta's does",
            )
        return picture
    result = aggregate(experiment, read_anchors(options.published), options.bootstrap_samples)
    pictures = aggregate_pictures(experiment, result) if result else {}
    if options.figure not in pictures:
        variants = "two variants" if options.figure == "improvement" else "a variant"
        raise ConfigError(
            "figure",
            f"{options.figure}: this takes two seeds of {variants}, in an environment with a "
            "published return of SAC",
        )
    return pictures[options.figure]
