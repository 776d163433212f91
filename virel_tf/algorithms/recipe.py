"""A variant is a recipe of parts. Nothing else tells two algorithms apart.

A part is the name of one that ships with the package, or a function of the user's own with the same arguments:

| field | names | a function instead |
|---|---|---|
| critics | hard, soft: the value each Q bootstraps on (`objective/targets.py`) | (q, log_prob, temperature) -> [B] |
| bootstrap | v: a learned V-bar(s'); q: Q-bar at the policy's next action; target_q: at the target policy's | |
| policy | gaussian: a tanh-squashed Gaussian; deterministic | |
| prior | uniform: the KL to it is minus the entropy; old_policy: the policy of some updates ago | |
| e_step | reparametrised, score, deterministic (`objective/e_step.py`) | (EStepInputs) -> loss |
| temperature | zero, constant, learned, ... (`algorithms/temperature.py`) | (config, action_size) -> Temperature |
| exploration | sample: an action of the policy; ornstein_uhlenbeck: its mean and correlated noise | |
| m_step | squared_error (`objective/m_step.py`) | (prediction, target) -> loss |

This module and the registry import nothing of TensorFlow, so the command line can list variants at once.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from virel_tf.errors import ConfigError

if TYPE_CHECKING:
    from virel_tf.config import Config

Part = str | Callable[..., Any]

# What a field that takes no function may say; the others are looked up where they are used.
NAMES = {
    "bootstrap": ("v", "q", "target_q"),
    "policy": ("gaussian", "deterministic"),
    "prior": ("uniform", "old_policy"),
    "exploration": ("sample", "ornstein_uhlenbeck"),
}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The choices that make an algorithm; the defaults are those of virel (Algorithm 1)."""

    critics: tuple[Part, ...] = ("hard",)
    bootstrap: str = "v"
    policy: str = "gaussian"
    prior: str = "uniform"
    e_step: Part = "reparametrised"
    temperature: Part = "constant"
    exploration: str = "sample"
    m_step: Part = "squared_error"
    about: str = ""

    def __post_init__(self) -> None:
        if not self.critics or isinstance(self.critics, str):
            raise ConfigError(f"recipe: critics={self.critics!r} is not allowed; it must be a tuple such as ('hard',)")
        for field, names in NAMES.items():
            if getattr(self, field) not in names:
                raise ConfigError(f"recipe: {field}={getattr(self, field)!r} is not allowed; it must be one of "
                                  f"{', '.join(names)}")

    def row(self) -> dict[str, str]:
        """The choices in words, by column."""
        critics = ", ".join(part_name(kind) for kind in self.critics)
        bootstrap = {"v": "V(s')", "q": "Q(s', a')", "target_q": "Q(s', slow a')"}[self.bootstrap]
        return {"critics": critics, "bootstrap": bootstrap, "policy": self.policy, "prior": self.prior,
                "E-step": part_name(self.e_step), "temperature": part_name(self.temperature),
                "exploration": self.exploration}


def part_name(part: Part) -> str:
    """How a part is called."""
    return part if isinstance(part, str) else part.__name__


def find_part(part: Part, table: dict[str, Callable[..., Any]], field: str) -> Callable[..., Any]:
    """The function that a part stands for."""
    if not isinstance(part, str):
        return part
    if part not in table:
        raise ConfigError(f"recipe: {field}={part!r} is not allowed; it must be one of {', '.join(table)}")
    return table[part]


def adjusted(recipe: Recipe, config: Config) -> Recipe:
    """The recipe with the parts that flags exchange: --critics, --e_step, --temperature."""
    changes: dict[str, Any] = {}
    if config.critics:
        changes["critics"] = tuple(itertools.islice(itertools.cycle(recipe.critics), config.critics))
    for field in ("e_step", "temperature"):
        if getattr(config, field) != "variant":
            changes[field] = getattr(config, field)
    recipe = dataclasses.replace(recipe, **changes)
    if recipe.policy == "deterministic":
        # A policy without deviation has no density, hence no entropy and no score.
        for field, allowed in (("e_step", "deterministic"), ("temperature", "zero")):
            if field in changes and changes[field] != allowed:
                raise ConfigError(f"--{field}: {changes[field]!r} is not allowed with --variant={config.variant}, "
                                  f"whose policy is deterministic; it must be one of variant, {allowed}")
    elif recipe.e_step == "deterministic":
        raise ConfigError(f"--e_step: 'deterministic' is not allowed with --variant={config.variant}, whose policy is "
                          "stochastic; it must be one of variant, reparametrised, score")
    return recipe
