"""Published returns, and the scale on which returns of different environments compare.

On that scale 0 is the return of uniformly random actions and 1 that of published SAC (the mean over
its sources) after about as many steps.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from virel_tf.errors import ConfigError
from virel_tf.presets import environment_family
from virel_tf.reports.aggregates import Estimate, t_quantile

OWN = Path(__file__).with_name("published.csv")
COMPARABLE = 2.0  # a published number is shown beside runs of half to twice its steps
VERSIONS_DIFFER = ("Ant", "Humanoid")  # whose versions treat contact forces differently
ZERO, ONE = "random", "SAC"


class Anchor(NamedTuple):
    """A published return: mean and deviation over seeds."""

    env: str
    steps: int
    algorithm: str
    mean: float
    std: float
    seeds: int
    version: str
    source: str

    @property
    def interval(self) -> Estimate:
        """The mean with its 95 % interval, as for runs of our own."""
        reach = (
            t_quantile(self.seeds - 1) * self.std / math.sqrt(self.seeds)
            if self.seeds > 1
            else math.nan
        )
        return Estimate(self.mean, self.mean - reach, self.mean + reach)


class Scale(NamedTuple):
    """The returns that count as 0 and 1, and the steps after which the second was reached."""

    zero: float
    one: float
    steps: int


def read_anchors(path: str = "") -> list[Anchor]:
    """The rows of a CSV file with the columns of `Anchor`, by default the package's own."""
    try:
        with open(path or OWN, newline="", encoding="utf-8") as file:
            anchors = [
                Anchor(
                    row["env"],
                    int(row["steps"]),
                    row["algorithm"],
                    float(row["mean"]),
                    float(row["std"] or "nan"),
                    int(row["seeds"]),
                    row["version"],
                    row["source"],
                )
                for row in csv.DictReader(file)
            ]
        for anchor in anchors:
            if anchor.algorithm != ZERO and anchor.steps < 1:
                raise ValueError(f"{anchor.algorithm} after {anchor.steps} steps")
        return anchors
    except OSError as error:
        raise ConfigError("published", f"cannot read {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise ConfigError(
            "published",
            f"{path} does not fit ({error}); it must have the columns {', '.join(Anchor._fields)}",
        ) from error


def comparable_anchors(anchors: list[Anchor], env: str, steps: int) -> list[Anchor]:
    """What was published for the environment, best first.

    At the number of steps nearest to that of the runs.
    """
    family = environment_family(env)
    found = [
        anchor
        for anchor in anchors
        if anchor.env == family
        and anchor.algorithm != ZERO
        and steps / COMPARABLE <= anchor.steps <= steps * COMPARABLE
        and (family not in VERSIONS_DIFFER or env.endswith(f"-{anchor.version}"))
    ]
    nearest = nearest_budget(found, steps)
    return sorted(
        (anchor for anchor in found if anchor.steps == nearest), key=lambda anchor: -anchor.mean
    )


def scale_of(anchors: list[Anchor], env: str, steps: int) -> Scale | None:
    """The environment's scale for runs of so many steps.

    None where the anchors do not give two ends.
    """
    here = [anchor for anchor in anchors if anchor.env == environment_family(env)]
    zeros = [anchor.mean for anchor in here if anchor.algorithm == ZERO]
    ones = [anchor for anchor in here if anchor.algorithm == ONE]
    if not zeros or not ones:
        return None
    nearest = nearest_budget(ones, steps)
    one = float(np.mean([anchor.mean for anchor in ones if anchor.steps == nearest]))
    return Scale(zeros[0], one, nearest) if one != zeros[0] else None


def nearest_budget(anchors: list[Anchor], steps: int) -> int:
    """The number of steps, of those the anchors have, whose ratio to `steps` is nearest to 1.

    0 where there is none.
    """
    budgets = {anchor.steps for anchor in anchors}
    return min(budgets, key=lambda budget: (abs(math.log(budget / steps)), budget), default=0)
