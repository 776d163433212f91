"""What a set of scores says, and how sure it is: pure functions on arrays.

Scores of one variant are a matrix [runs, tasks]: row n holds what run n (a seed) reached in each
task (an environment), normalised so that tasks compare. The aggregates take leading axes too, so
that all resamples of a bootstrap, [samples, runs, tasks], are computed at once. The estimates are
those of Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical
precipice".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
LAST_EVALUATIONS = 10  # whose mean is a run's final score

# The 97.5 % quantile of Student's t for 1, 2, ... 30 degrees of freedom.
T_QUANTILES = (
    12.706205,
    4.302653,
    3.182446,
    2.776445,
    2.570582,
    2.446912,
    2.364624,
    2.306004,
    2.262157,
    2.228139,
    2.200985,
    2.178813,
    2.160369,
    2.144787,
    2.131450,
    2.119905,
    2.109816,
    2.100922,
    2.093024,
    2.085963,
    2.079614,
    2.073873,
    2.068658,
    2.063899,
    2.059539,
    2.055529,
    2.051831,
    2.048407,
    2.045230,
    2.042272,
)
NORMAL_QUANTILE = 1.959964


class Estimate(NamedTuple):
    """A value and its 95 % interval; arrays where there are several."""

    value: np.ndarray | float
    low: np.ndarray | float
    high: np.ndarray | float


# ---------------------------------------------------------------- one run


def final_score(returns: np.ndarray) -> float:
    """Mean of the last ten evaluations (of all, where there are fewer)."""
    assert returns.ndim == 1 and len(returns)
    return float(returns[-LAST_EVALUATIONS:].mean())


def trailing_mean(values: np.ndarray | float) -> np.ndarray:
    """At each evaluation the mean of the last ten so far; it ends at the final score."""
    values = np.asarray(values)
    assert values.ndim == 1
    total = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - LAST_EVALUATIONS, 0)
    return (total[last] - total[first]) / (last - first)


def area_under_curve(steps: np.ndarray, returns: np.ndarray) -> float:
    """The area under the learning curve divided by its length: the mean return while learning."""
    assert steps.ndim == 1 and steps.shape == returns.shape and len(steps)
    if len(steps) == 1:
        return float(returns[0])
    return float(np.sum(np.diff(steps) * (returns[1:] + returns[:-1]) / 2) / (steps[-1] - steps[0]))


def steps_to_threshold(steps: np.ndarray, returns: np.ndarray, threshold: float) -> float:
    """Environment steps at the first evaluation that reached the threshold.

    Infinity where none did.
    """
    assert steps.ndim == 1 and steps.shape == returns.shape
    reached = np.flatnonzero(returns >= threshold)
    return float(steps[reached[0]]) if len(reached) else np.inf


# ---------------------------------------------------------------- runs of one task


def mean_interval(values: np.ndarray) -> Estimate:
    """Mean over the first axis, and its 95 % interval by Student's t.

    The interval of one run is unknown (NaN).
    """
    values = np.asarray(values, float)
    count = len(values)
    mean = values.mean(axis=0)
    if count < 2:
        return Estimate(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    reach = t_quantile(count - 1) * values.std(axis=0, ddof=1) / np.sqrt(count)
    return Estimate(mean, mean - reach, mean + reach)


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t."""
    if freedom <= len(T_QUANTILES):
        return T_QUANTILES[freedom - 1]
    # from here on the first terms of its expansion about the normal quantile do
    z = NORMAL_QUANTILE
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))


# ---------------------------------------------------------------- runs of several tasks


def normalise(returns: np.ndarray | float, zero: float, one: float) -> np.ndarray:
    """0 where the return is `zero`, 1 where it is `one`, and straight on between and beyond."""
    return (np.asarray(returns, float) - zero) / (one - zero)


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """Mean of the middle half of all scores of [..., runs, tasks].

    A quarter, rounded down, is cut off each end.
    """
    assert scores.ndim >= 2
    pooled = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = pooled.shape[-1] // 4
    return pooled[..., cut : pooled.shape[-1] - cut].mean(axis=-1)


def performance_profile(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The share of all scores of [..., runs, tasks] above each of [thresholds].

    [..., thresholds].
    """
    assert scores.ndim >= 2 and thresholds.ndim == 1
    pooled = scores.reshape(*scores.shape[:-2], -1)
    return (pooled[..., None, :] > thresholds[:, None]).mean(axis=-1)


def probability_of_improvement(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """How often a run beats one of the others in the same task.

    Of [..., runs, tasks] over [..., other runs, tasks].

    A tie counts half; tasks count the same.
    """
    assert scores.ndim == others.ndim >= 2 and scores.shape[-1] == others.shape[-1]
    mine, theirs = scores[..., :, None, :], others[..., None, :, :]
    return ((mine > theirs) + 0.5 * (mine == theirs)).mean(axis=(-3, -2, -1))


# ---------------------------------------------------------------- how sure


def bootstrap_indices(
    generator: np.random.Generator, samples: int, scores: np.ndarray
) -> np.ndarray:
    """[samples, runs, tasks]: for each task on its own (a stratum), runs drawn with replacement."""
    assert scores.ndim == 2
    return generator.integers(0, len(scores), [samples, *scores.shape])


def resample(scores: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """[samples, runs, tasks] of the scores [runs, tasks] at such indices."""
    assert scores.ndim == 2 and indices.shape[1:] == scores.shape
    return np.take_along_axis(scores[None], indices, axis=1)


def bootstrap_mean(curves: np.ndarray, samples: int) -> Estimate:
    """Mean of [runs, steps] over runs, drawn whole, and its 95 % percentile interval at each step.

    NaN for one run.
    """
    assert curves.ndim == 2
    mean = curves.mean(axis=0)
    if len(curves) < 2:
        return Estimate(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    runs = len(curves)
    shares = (
        np.random.default_rng(0).multinomial(runs, np.full(runs, 1 / runs), size=samples) / runs
    )
    low, high = np.quantile(shares @ curves, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return Estimate(mean, low, high)


def bootstrap(
    statistic: Callable[..., np.ndarray], *scores: np.ndarray, indices: list[np.ndarray]
) -> Estimate:
    """The statistic of one or more matrices of scores, with its 95 % percentile interval.

    The interval is that of its resamples.
    """
    assert len(scores) == len(indices)
    resampled = statistic(*(resample(*pair) for pair in zip(scores, indices, strict=True)))
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return Estimate(statistic(*scores), low, high)
