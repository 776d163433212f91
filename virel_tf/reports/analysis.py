"""From runs to numbers: what the tables and figures of a report show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from virel_tf.experiments.command_line import command_of
from virel_tf.registry import RECIPES
from virel_tf.reports import aggregates
from virel_tf.reports.aggregates import Estimate, mean_interval
from virel_tf.reports.published import Anchor, Scale, comparable_anchors, scale_of
from virel_tf.reports.runs import Experiment, Group

LEAST_SEEDS = 2  # for an aggregate: the bootstrap of one run has no width
HALF_WAY = 0.5  # the score whose first reaching is timed
BAND_SAMPLES = 2000  # resamples behind the band of a curve
PROFILE_THRESHOLDS = np.linspace(0, 1.5, 61)
Cell = tuple[str, str]  # label, environment


class Table(NamedTuple):
    """Rows with named columns; None is an empty cell."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[Any]]


class Curve(NamedTuple):
    """One column of a group's metrics: each seed, their mean and its interval, by steps."""

    group: Group
    steps: np.ndarray
    values: np.ndarray  # [seeds, steps]
    estimate: Estimate


class Aggregate(NamedTuple):
    """Normalised scores of variants in the same environments, at the same number of steps."""

    envs: list[str]
    steps: dict[str, int]
    late: list[str]  # runs of these variants that had no evaluation by then, and so have no score
    scores: dict[str, np.ndarray]  # label -> [seeds, environments]
    iqm: dict[str, Estimate]
    profiles: dict[str, Estimate]
    improvement: dict[tuple[str, str], Estimate]


def curves_of(groups: list[Group], column: str) -> list[Curve]:
    """The groups that have the column, as curves."""
    curves = [(group, *group.curves(column)) for group in groups]
    return [
        Curve(group, steps, values, aggregates.bootstrap_mean(values, BAND_SAMPLES))
        for group, steps, values in curves
        if len(steps)
    ]


def follows_epsilon(group: Group) -> bool:
    """Whether the group's temperature is made from the residual error epsilon, as beta's is."""
    setting = group.runs[0].settings["temperature"]
    recipe = RECIPES.get(group.variant)
    temperature = recipe.temperature if setting == "variant" and recipe else setting
    return temperature in ("residual", "scaled_residual")


# ---------------------------------------------------------------- tables


def scale_in(experiment: Experiment, env: str, anchors: list[Anchor]) -> Scale | None:
    """The one scale of an environment, in its tables and in what is said over several.

    That of its longest group.
    """
    return scale_of(anchors, env, experiment.steps_in(env))


def scores_table(experiment: Experiment, env: str, anchors: list[Anchor]) -> Table:
    """Final returns in an environment, and under them what was published for about as many steps."""
    scale = scale_in(experiment, env, anchors)
    rows = []
    for group in experiment.of(env):
        finals = group.final_scores()
        mean, low, high = map(float, mean_interval(finals))
        score = float(aggregates.normalise(mean, scale.zero, scale.one)) if scale else None
        rows.append([group.label, mean, low, high, len(finals), group.steps, score, "here"])
    for anchor in comparable_anchors(anchors, env, experiment.steps_in(env)):
        rows.append(
            [
                anchor.algorithm,
                *anchor.interval,
                anchor.seeds,
                anchor.steps,
                None,
                f"{anchor.source}, {anchor.version}",
            ]
        )
    return Table(
        f"scores-{env.replace('/', '_')}",
        f"Final return in {env}",
        ["variant", "mean", "95 % low", "95 % high", "seeds", "steps", "score", "source"],
        rows,
    )


def speed_table(experiment: Experiment, anchors: list[Anchor]) -> Table:
    """How fast each group learned."""
    rows = []
    for group in experiment.groups:
        series = [run.series("eval_return", group.steps) for run in group.runs]
        area = mean_interval(np.array([aggregates.area_under_curve(*pair) for pair in series]))
        scale = scale_in(experiment, group.env, anchors)
        row = [group.env, group.label, *map(float, area), len(series)]
        if scale:
            threshold = scale.zero + HALF_WAY * (scale.one - scale.zero)
            times = np.array([aggregates.steps_to_threshold(*pair, threshold) for pair in series])
            row += [
                threshold,
                f"{np.isfinite(times).sum()} of {len(times)}",
                median_of_times(times),
            ]
        rows.append(row + [None] * (9 - len(row)))
    return Table(
        "speed",
        "How fast they learned",
        [
            "environment",
            "variant",
            "mean return",
            "95 % low",
            "95 % high",
            "seeds",
            "half-way return",
            "reached by",
            "median steps",
        ],
        rows,
    )


def median_of_times(times: np.ndarray) -> float | str:
    """Of steps to a threshold, where infinity is a run that never came there."""
    middle = np.sort(times)[[(len(times) - 1) // 2, len(times) // 2]]
    return float(middle.mean()) if np.isfinite(middle).all() else "never"


def curves_table(curves: list[Curve], column: str) -> Table:
    """The numbers behind a figure of learning curves."""
    env = curves[0].group.env
    rows = [
        [curve.group.label, int(step), len(curve.values), *numbers]
        for curve in curves
        for step, numbers in zip(curve.steps, np.stack(curve.estimate, axis=1), strict=True)
    ]
    return Table(
        f"{column}-{env.replace('/', '_')}",
        f"{column} in {env}",
        ["variant", "step", "seeds", "mean", "95 % low", "95 % high"],
        rows,
    )


def runs_table(experiment: Experiment) -> Table:
    """The command and the versions behind every run."""
    rows = [
        [
            group.env,
            group.label,
            run.seed,
            run.steps,
            str(run.folder),
            command_of(run.settings),
            versions_text(run.versions),
        ]
        for group in experiment.groups
        for run in group.runs
    ]
    return Table(
        "runs",
        "Runs",
        ["environment", "variant", "seed", "steps", "folder", "command", "versions"],
        rows,
    )


def versions_text(versions: Sequence[dict[str, Any]]) -> str:
    """What made a run, in a line."""
    parts = [
        ", ".join(
            [
                *(f"{name} {number}" for name, number in part["versions"].items()),
                f"revision {part.get('git_revision') or 'unknown'}",
            ]
        )
        + (f" (from step {part['from_step']:,})" if part["from_step"] else "")
        for part in versions
    ]
    return "; then ".join(parts) or "not recorded"


def missing_table(experiment: Experiment) -> Table:
    """The cells of the grid that are not there, or shorter than others."""
    return Table(
        "missing",
        "Missing or shorter",
        ["environment", "variant", "seeds", "what"],
        [
            [cell.env, cell.label, ", ".join(map(str, cell.seeds)), cell.what]
            for cell in experiment.missing
        ],
    )


# ---------------------------------------------------------------- aggregates


def aggregate(experiment: Experiment, anchors: list[Anchor], samples: int) -> Aggregate | None:
    """Over the widest grid there is.

    None where no variant has two seeds in an environment that has a scale.
    """
    groups = {
        (group.label, group.env): group
        for group in experiment.groups
        if len(group.runs) >= LEAST_SEEDS and scale_in(experiment, group.env, anchors)
    }
    steps, early = equal_steps(groups, experiment)
    late = [
        f"{env} {label} seed {seed}"
        for (label, env), group in early.items()
        for seed in groups[label, env].seeds
        if seed not in group.seeds
    ]
    envs, groups = list(steps), early
    scores = {}
    for label in dict.fromkeys(label for label, _ in groups):
        columns = []
        for env in envs:
            scale = scale_in(experiment, env, anchors)
            assert scale is not None  # as every group chosen above has one
            columns.append(
                aggregates.normalise(
                    groups[label, env].final_scores(steps[env]), scale.zero, scale.one
                )
            )
        seeds = min(map(len, columns))  # a matrix has as many runs in every environment
        scores[label] = np.stack([column[:seeds] for column in columns], axis=1)
    if not scores:
        return None
    generator = np.random.default_rng(0)  # the same report from the same runs
    indices = {
        label: aggregates.bootstrap_indices(generator, samples, score)
        for label, score in scores.items()
    }
    iqm = {
        label: aggregates.bootstrap(aggregates.interquartile_mean, score, indices=[indices[label]])
        for label, score in scores.items()
    }
    profiles = {
        label: aggregates.bootstrap(
            lambda x: aggregates.performance_profile(x, PROFILE_THRESHOLDS),
            score,
            indices=[indices[label]],
        )
        for label, score in scores.items()
    }
    improvement = {
        (one, other): aggregates.bootstrap(
            aggregates.probability_of_improvement,
            scores[one],
            scores[other],
            indices=[indices[one], indices[other]],
        )
        for one in scores
        for other in scores
        if one != other
    }
    return Aggregate(envs, steps, late, scores, iqm, profiles, improvement)


def equal_steps(
    groups: dict[Cell, Group], experiment: Experiment
) -> tuple[dict[str, int], dict[Cell, Group]]:
    """The steps at which the widest grid's variants compare, by environment, and its groups.

    Of each group those runs are taken that had been evaluated by then; a group that is left with
    too few is not in it.
    """
    envs, labels = widest_grid(
        {
            label: [env for env in experiment.envs if (label, env) in groups]
            for label in experiment.labels
        }
    )
    steps = {env: min(groups[label, env].steps for label in labels) for env in envs}
    early = {
        (label, env): groups[label, env].evaluated_by(steps[env])
        for label in labels
        for env in envs
    }
    too_few = [cell for cell, group in early.items() if len(group.runs) < LEAST_SEEDS]
    if too_few:
        return equal_steps(
            {cell: group for cell, group in groups.items() if cell not in too_few}, experiment
        )
    return steps, early


def widest_grid(envs_of: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    """The environments and labels of the largest full grid.

    Its environments are those that some label has.
    """
    best: tuple[list[str], list[str]] = ([], [])
    for envs in envs_of.values():
        labels = [label for label, others in envs_of.items() if set(envs) <= set(others)]
        if (len(envs) * len(labels), len(envs)) > (len(best[0]) * len(best[1]), len(best[0])):
            best = (envs, labels)
    return best


def aggregate_tables(result: Aggregate) -> list[Table]:
    """The numbers behind the three figures of aggregates."""
    iqm = [
        [label, len(result.scores[label]), len(result.envs), *map(float, estimate)]
        for label, estimate in result.iqm.items()
    ]
    profiles = [
        [label, threshold, *numbers]
        for label, estimate in result.profiles.items()
        for threshold, numbers in zip(PROFILE_THRESHOLDS, np.stack(estimate, axis=1), strict=True)
    ]
    improvement = [
        [one, other, *map(float, estimate)] for (one, other), estimate in result.improvement.items()
    ]
    interval = ["95 % low", "95 % high"]
    return [
        Table(
            "iqm",
            "Interquartile mean of scores",
            ["variant", "seeds", "environments", "interquartile mean", *interval],
            iqm,
        ),
        Table(
            "profiles",
            "Performance profiles",
            ["variant", "score", "share of runs above", *interval],
            profiles,
        ),
        Table(
            "improvement",
            "Probability of improvement",
            ["variant", "over", "probability", *interval],
            improvement,
        ),
    ]
