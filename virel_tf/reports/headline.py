"""What a report says first: the result in plain words, made from the numbers."""

from __future__ import annotations

import numpy as np

from virel_tf.reports.aggregates import mean_interval
from virel_tf.reports.analysis import Aggregate
from virel_tf.reports.published import ONE, Anchor, comparable_anchors
from virel_tf.reports.runs import Experiment, Group


def headline(experiment: Experiment, result: Aggregate | None, anchors: list[Anchor]) -> list[str]:
    """The sentences a report begins with.

    One on the whole, one on each environment, one on all of them together, and one on what is
    missing.
    """
    counts = [len(group.runs) for group in experiment.groups]
    seeds = f"{counts[0]}" if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"
    lines = [
        (
            f"{number(sum(counts), 'run')}: {number(len(experiment.labels), 'variant')} in"
            f" {number(len(experiment.envs), 'environment')}, {seeds} seed{'' if seeds == '1' else 's'}"
            " each."
        )
    ]
    lines += [environment_line(experiment.of(env), anchors) for env in experiment.envs]
    if result:
        lines.append(aggregate_line(result))
    absent = sum(len(cell.seeds) for cell in experiment.missing if cell.what.startswith("absent"))
    partial = sum(
        len(cell.seeds) for cell in experiment.missing if not cell.what.startswith("absent")
    )
    if absent or partial:
        lines.append(
            f"Of the full grid, {number(absent, 'run')} {'is' if absent == 1 else 'are'} absent and"
            f" {partial} shorter than others; the last section names them."
        )
    return lines


def environment_line(groups: list[Group], anchors: list[Anchor]) -> str:
    """The variants in an environment at equal steps, best first.

    It says whether the first is surely so.
    """
    env, steps = groups[0].env, min(group.steps for group in groups)
    scores = {group.label: group.evaluated_by(steps).final_scores(steps) for group in groups}
    ranked = sorted(
        (label for label in scores if len(scores[label])), key=lambda label: -scores[label].mean()
    )
    shown = [f"{label} {in_words(scores[label].mean())}" for label in ranked]
    some_go_on = " (the most that all have)" if any(group.steps > steps for group in groups) else ""
    text = (
        f"{env}, {steps:,} steps{some_go_on}:"
        f" {'; '.join(shown[:4])}{'; ...' if len(shown) > 4 else ''}"
    )
    if len(ranked) > 1:
        text += f" ({certainty(ranked[0], ranked[1], scores)})"
    late = [label for label in scores if label not in ranked]
    if late:
        text += f"; {listed(late)} had no evaluation by then"
    published = [
        anchor for anchor in comparable_anchors(anchors, env, steps) if anchor.algorithm == ONE
    ]
    if published:
        means = [anchor.mean for anchor in published]
        span = (
            in_words(means[0])
            if len(means) == 1
            else f"{in_words(min(means))} to {in_words(max(means))}"
        )
        text += f". Published {ONE} at {published[0].steps:,}: {span}"
    return text + "."


def certainty(best: str, second: str, scores: dict[str, np.ndarray]) -> str:
    """Whether the better of two groups is better beyond doubt."""
    one, other = mean_interval(scores[best]), mean_interval(scores[second])
    if one.value == other.value:
        return "the first place is shared"
    if min(len(scores[best]), len(scores[second])) < 2:
        return (
            f"one seed of {best if len(scores[best]) == 1 else second} does not tell which is"
            " better"
        )
    if one.low > other.high:
        return "the first is ahead of the second: their 95 % intervals do not meet"
    return "the 95 % intervals of the first two overlap"


def aggregate_line(result: Aggregate) -> str:
    """The best interquartile mean."""
    ranked = sorted(result.iqm, key=lambda label: -result.iqm[label].value)
    best = [label for label in ranked if result.iqm[label].value == result.iqm[ranked[0]].value]
    value, low, high = result.iqm[ranked[0]]
    where = result.envs[0] if len(result.envs) == 1 else f"{len(result.envs)} environments"
    return (
        f"Over {where}, at equal steps, {listed(best)} {'has' if len(best) == 1 else 'have'} the"
        f" highest interquartile mean score, {value:.2f} ({low:.2f} to {high:.2f}); 0 is random, 1"
        f" published {ONE}."
    )


def listed(names: list[str]) -> str:
    """One, two and three."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def number(count: int, noun: str) -> str:
    """1 run, 2 runs."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def in_words(return_: float) -> str:
    """A return in whole numbers, where these tell enough."""
    return f"{return_:,.{0 if abs(return_) >= 10 else 1}f}"
