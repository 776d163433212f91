"""A variant is a recipe of parts. Nothing else tells two algorithms apart.

A part is the name of one that ships with the package, or a function of the user's own with the same
arguments:

| field | names | a function instead |
|---|---|---|
| critics | hard, soft: the value each Q bootstraps on (`objective/targets.py`) | (q, log_prob, temperature) -> [B] |
| bootstrap | v: a learned V-bar(s'); q: Q-bar at the policy's next action; target_q: at the target policy's | |
| | optimal_q: at the best action found near the policy's (T*); self: Q itself, no target network | |
| policy | gaussian: a tanh-squashed Gaussian; deterministic | |
| prior | uniform: the KL to it is minus the entropy; old_policy: the policy of some updates ago | |
| e_step | reparametrised, score, expected, deterministic (`objective/e_step.py`) | (EStepInputs) -> loss, or `EStep` |
| temperature | zero, constant, learned, ... (`algorithms/temperature.py`) | (config, action_size) -> Temperature |
| exploration | sample: an action of the policy; ornstein_uhlenbeck: its mean and correlated noise; | |
| | gaussian: its mean and independent noise | |
| target_noise | none; clipped: the next action is smoothed by clipped Gaussian noise (TD3) | |
| policy_q | what the policy climbs: the minimum or the mean of the Qs | |
| m_step | direct, residual, gtd2, tdc, elbo (`algorithms/m_steps/`) | (prediction, target) -> loss |

Numbers that belong to one part are fields too, such as the noise of an exploration. No flag sets
them; a variant of one's own may have other values.

This module and the registry import nothing of TensorFlow, so the command line can list variants at
once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from virel_tf.errors import ConfigError
from virel_tf.options import check_options, option

Part = str | Callable[..., Any]

# The parts that ship, by field. Those that are functions live in the modules named above, under the
# same names.
NAMES = {
    "critics": ("hard", "soft"),
    "e_step": ("reparametrised", "score", "expected", "deterministic"),
    "temperature": ("zero", "constant", "learned", "residual", "scaled_residual", "state_residual"),
    "m_step": ("direct", "residual", "gtd2", "tdc", "elbo"),
    "bootstrap": ("v", "q", "target_q", "optimal_q", "self"),
    "policy": ("gaussian", "deterministic"),
    "prior": ("uniform", "old_policy"),
    "exploration": ("sample", "ornstein_uhlenbeck", "gaussian"),
    "target_noise": ("none", "clipped"),
    "policy_q": ("minimum", "mean"),
}
EPSILON, NUMBERS = "epsilon, the residual error", "numbers of one part"
TAKES_FUNCTIONS = ("critics", "e_step", "temperature", "m_step")


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
    m_step: Part = "direct"
    target_noise: str = "none"
    policy_q: str = "minimum"
    target_subset: int = (
        0  # how many of the Qs, drawn anew for each update, a target takes the minimum of; 0: all
    )
    policy_period: int = 1  # updates from one E-step to the next

    epsilon_c: float = option(
        2.0, EPSILON, "c in epsilon = c/p |T Q - Q|_p^p (2: Algorithm 2's mean square)", above=0
    )
    epsilon_p: float = option(2.0, EPSILON, "p in the same; 1 has the units of the reward", least=1)
    epsilon_value: str = option(
        "target",
        EPSILON,
        "V inside epsilon: the target network's (Algorithm 2) or the online one's",
        choices=("target", "online"),
    )
    epsilon_warmup: str = option(
        "alpha",
        EPSILON,
        "until epsilon_samples steps were taken: the temperature is alpha (alpha), epsilon counts "
        "as 1 (one; the authors' code), or epsilon is estimated at once (none)",
        choices=("alpha", "one", "none"),
    )
    epsilon_critics: str = option(
        "each",
        EPSILON,
        "with several hard Qs: epsilon of each, averaged, or of their minimum",
        choices=("each", "minimum"),
    )
    climb_steps: int = option(
        5, NUMBERS, "optimal_q: steps up Q from the policy's action", least=1, most=100
    )
    zeta_learning_rate: float = option(3e-4, NUMBERS, "gtd2, tdc: Adam step size of zeta", above=0)
    boltzmann_actions: int = option(
        8, NUMBERS, "elbo: actions per state that stand for the Boltzmann policy", least=2
    )
    soft_reward_scale: float = option(
        0.0,
        NUMBERS,
        "hard and soft critics: factor on the soft ones' rewards (0: follows rewards and entropy "
        "so that the means of both kinds align)",
        least=0,
    )
    prior_period: int = option(
        100, NUMBERS, "old_policy: updates after which the present policy replaces it", least=1
    )
    ou_theta: float = option(
        0.15, NUMBERS, "how fast Ornstein-Uhlenbeck noise returns to 0, per step", least=0, most=1
    )
    ou_sigma: float = option(
        0.2, NUMBERS, "deviation of what is added to that noise, per step", least=0
    )
    exploration_sigma: float = option(
        0.1, NUMBERS, "gaussian exploration: deviation of the noise on actions", least=0
    )
    target_noise_sigma: float = option(
        0.2, NUMBERS, "clipped target noise: deviation of the noise on the next action", least=0
    )
    target_noise_clip: float = option(0.5, NUMBERS, "bound of that noise", least=0)
    about: str = ""

    def __post_init__(self) -> None:
        check_options(self)
        critics: object = self.critics  # anything, whatever its annotation asks for
        if not critics or isinstance(critics, str):
            raise ConfigError(
                None,
                f"recipe: critics={critics!r} is not allowed; it must be a tuple such as ('hard',)",
            )
        for field, names in NAMES.items():
            value = getattr(self, field)
            for part in value if field == "critics" else (value,):
                if part not in names and not (
                    field in TAKES_FUNCTIONS and callable(getattr(part, "loss", part))
                ):
                    raise ConfigError(
                        None,
                        f"recipe: {field}={part!r} is not allowed; it must be one of"
                        f" {', '.join(names)}"
                        + (", or a function" if field in TAKES_FUNCTIONS else ""),
                    )
        if self.policy_period < 1:
            raise ConfigError(
                None,
                f"recipe: policy_period={self.policy_period} is not allowed; it must be at least 1",
            )
        if not 0 <= self.target_subset <= len(self.critics):
            raise ConfigError(
                None,
                f"recipe: target_subset={self.target_subset} is not allowed; it must be from 0 to"
                f" the number of critics, {len(self.critics)}",
            )
        if fault := clash(vars(self)):
            field, why, allowed = fault
            raise ConfigError(
                None,
                f"recipe: {field}={getattr(self, field)!r} is not allowed with {why}; it must be"
                f" one of {', '.join(allowed)}",
            )

    def parts(self) -> dict[str, str]:
        """Every choice by the name of its field, to tell two recipes apart."""
        return {
            field.name: (
                ", ".join(part_name(kind) for kind in self.critics)
                if field.name == "critics"
                else (
                    part_name(value)
                    if isinstance(value := getattr(self, field.name), str) or callable(value)
                    else str(value)
                )
            )
            for field in dataclasses.fields(self)
            if field.name != "about"
        }

    def row(self) -> dict[str, str]:
        """The choices in words, by column."""
        parts = self.parts()
        bootstrap = {
            "v": "V(s')",
            "q": "Q(s', a')",
            "target_q": "Q(s', a-bar')",
            "optimal_q": "max Q(s', .)",
            "self": "own Q(s', a')",
        }[self.bootstrap]
        return {
            "critics": critics_in_words([part_name(kind) for kind in self.critics]),
            "bootstrap": bootstrap,
            "policy": self.policy,
            "prior": self.prior,
            "E-step": parts["e_step"],
            "M-step": parts["m_step"],
            "temperature": parts["temperature"],
            "exploration": {
                "sample": "sample",
                "ornstein_uhlenbeck": "mean + OU noise",
                "gaussian": "mean + noise",
            }[self.exploration],
        }


def critics_in_words(kinds: list[str]) -> str:
    """hard, soft; or, where there are many of one kind, 10 x soft."""
    if len(kinds) > 2 and len(set(kinds)) == 1:
        return f"{len(kinds)} x {kinds[0]}"
    return ", ".join(kinds)


def part_name(part: Part) -> str:
    """How a part is called."""
    return part if isinstance(part, str) else getattr(part, "__name__", repr(part))


def find_part(part: Part, table: dict[str, Any]) -> Any:
    """What a part stands for: that of the table under its name, or the user's own."""
    return table[part] if isinstance(part, str) else part


def clash(parts: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...]] | None:
    """The first field whose part does not go with the others, or None where all fit.

    As (field, with what it does not go, the names that would).

    Functions of the user's own are taken to know what they do.
    """
    deterministic, soft = parts["policy"] == "deterministic", "soft" in parts["critics"]
    rules = [
        # A policy without deviation has no density, hence no entropy and no score, and draws
        # nothing.
        *(
            (deterministic, "a deterministic policy", field, allowed)
            for field, allowed in (
                ("e_step", ("deterministic",)),
                ("m_step", ("direct", "residual", "gtd2", "tdc")),
                ("temperature", ("zero",)),
                ("prior", ("uniform",)),
                ("exploration", ("ornstein_uhlenbeck", "gaussian")),
            )
        ),
        (
            not deterministic,
            "a stochastic policy",
            "e_step",
            ("reparametrised", "score", "expected"),
        ),
        # Both are of operators in the paper's set; soft ones are outside it.
        *(
            (soft, "a soft critic", field, tuple(name for name in NAMES[field] if name != value))
            for field, value in (("m_step", "elbo"), ("bootstrap", "optimal_q"))
        ),
        (
            parts["prior"] != "uniform",
            "a prior that is not uniform",
            "e_step",
            ("reparametrised", "score"),
        ),
    ]
    for applies, why, field, allowed in rules:
        if applies and isinstance(parts[field], str) and parts[field] not in allowed:
            return field, why, allowed
    return None
