"""Published returns, and the scale on which returns of different environments compare.

On that scale 0 is the return of uniformly random actions and 1 that of published SAC (the mean over its sources) after
about as many steps.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from virel_tf.config import environment_family
from virel_tf.errors import ConfigError
from virel_tf.experiments.statistics import Estimate, t_quantile

OWN = Path(__file__).with_name("anchors.csv")
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
        reach = t_quantile(self.seeds - 1) * self.std / math.sqrt(self.seeds)
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
            return [Anchor(row["env"], int(row["steps"]), row["algorithm"], float(row["mean"]),
                           float(row["std"] or "nan"), int(row["seeds"]), row["version"], row["source"])
                    for row in csv.DictReader(file)]
    except OSError as error:
        raise ConfigError(f"--anchors: cannot read {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"--anchors: {path} does not fit ({error}); it must have the columns "
                          f"{', '.join(Anchor._fields)}") from error


def comparable_anchors(anchors: list[Anchor], env: str, steps: int) -> list[Anchor]:
    """What was published for the environment and about as many steps, best first."""
    family = environment_family(env)
    found = [anchor for anchor in anchors if anchor.env == family and anchor.algorithm != ZERO
             and steps / COMPARABLE <= anchor.steps <= steps * COMPARABLE
             and (family not in VERSIONS_DIFFER or env.endswith(f"-{anchor.version}"))]
    return sorted(found, key=lambda anchor: (anchor.steps, -anchor.mean))


def scale_of(anchors: list[Anchor], env: str, steps: int) -> Scale | None:
    """The environment's scale for runs of so many steps; None where the anchors do not give both of its ends."""
    here = [anchor for anchor in anchors if anchor.env == environment_family(env)]
    zeros = [anchor.mean for anchor in here if anchor.algorithm == ZERO]
    budgets = {anchor.steps for anchor in here if anchor.algorithm == ONE}
    if not zeros or not budgets:
        return None
    nearest = min(budgets, key=lambda budget: (abs(math.log(budget / max(steps, 1))), budget))
    ones = [anchor.mean for anchor in here if anchor.algorithm == ONE and anchor.steps == nearest]
    return Scale(zeros[0], float(np.mean(ones)), nearest)
