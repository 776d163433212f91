"""What a report says first: the result in plain words, made from the numbers."""

from __future__ import annotations

from virel_tf.experiments.analysis import Aggregate
from virel_tf.experiments.anchors import ONE, Anchor, comparable_anchors
from virel_tf.experiments.runs import Experiment, Group
from virel_tf.experiments.statistics import mean_interval


def headline(experiment: Experiment, result: Aggregate | None, anchors: list[Anchor]) -> list[str]:
    """A sentence on the whole, one on each environment, one on all of them together, and one on what is missing."""
    counts = [len(group.runs) for group in experiment.groups]
    seeds = f"{counts[0]}" if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"
    lines = [f"{number(sum(counts), 'run')}: {number(len(experiment.labels), 'variant')} in "
             f"{number(len(experiment.envs), 'environment')}, {seeds} seed{'' if seeds == '1' else 's'} each."]
    lines += [environment_line(experiment.of(env), anchors) for env in experiment.envs]
    if result:
        lines.append(aggregate_line(result))
    absent = sum(len(cell.seeds) for cell in experiment.missing if cell.what.startswith("absent"))
    partial = sum(len(cell.seeds) for cell in experiment.missing if not cell.what.startswith("absent"))
    if absent or partial:
        lines.append(f"Of the full grid, {number(absent, 'run')} {'is' if absent == 1 else 'are'} absent and {partial} "
                     f"shorter than others; the last section names them.")
    return lines


def environment_line(groups: list[Group], anchors: list[Anchor]) -> str:
    """The variants in an environment, best first, and whether the first is surely so."""
    ranked = sorted(groups, key=lambda group: -group.final_scores().mean())
    best = ranked[0]
    shown = [f"{group.label} {group.final_scores().mean():,.0f}" for group in ranked]
    text = f"{best.env}, {steps_text(groups)}: {'; '.join(shown[:4])}{'; ...' if len(shown) > 4 else ''}"
    published = [anchor for anchor in comparable_anchors(anchors, best.env, best.steps) if anchor.algorithm == ONE]
    if len(ranked) > 1:
        text += f" ({certainty(best, ranked[1])})"
    if published:
        means = [anchor.mean for anchor in published]
        span = f"{means[0]:,.0f}" if len(means) == 1 else f"{min(means):,.0f} to {max(means):,.0f}"
        text += f". Published {ONE} at {published[0].steps:,}: {span}"
    return text + "."


def certainty(best: Group, second: Group) -> str:
    """Whether the better of two groups is better beyond doubt."""
    one, other = mean_interval(best.final_scores()), mean_interval(second.final_scores())
    if one.value == other.value:
        return "the first place is shared"
    if min(len(best.runs), len(second.runs)) < 2:
        return f"one seed of {best.label if len(best.runs) == 1 else second.label} does not tell which is better"
    if one.low > other.high:
        return "the first is ahead of the second: their 95 % intervals do not meet"
    return "the 95 % intervals of the first two overlap"


def aggregate_line(result: Aggregate) -> str:
    """The best interquartile mean."""
    ranked = sorted(result.iqm, key=lambda label: -result.iqm[label].value)
    best = [label for label in ranked if result.iqm[label].value == result.iqm[ranked[0]].value]
    value, low, high = result.iqm[ranked[0]]
    where = result.envs[0] if len(result.envs) == 1 else f"{len(result.envs)} environments"
    return (f"Over {where}, at equal steps, {listed(best)} {'has' if len(best) == 1 else 'have'} the "
            f"highest interquartile mean score, {value:.2f} ({low:.2f} to {high:.2f}); 0 is random, 1 published {ONE}.")


def steps_text(groups: list[Group]) -> str:
    """The number of steps, or from where to where it goes."""
    steps = sorted({group.steps for group in groups})
    return f"{steps[0]:,} steps" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,} steps"


def listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
