"""Every setting of a run, once: its default, its unit, its limits, and where it came from.

`Config` is a flat frozen dataclass; the command line makes one flag per field, in the groups given
here. It knows the names of the parts an algorithm is made of, and nothing of TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from pathlib import Path
from typing import Any

from virel_tf.errors import ConfigError
from virel_tf.options import check_options, check_value, option
from virel_tf.presets import preset_names, preset_values
from virel_tf.recipe import NAMES, Recipe, clash
from virel_tf.registry import RECIPES

RUN, PAPER, PARTS, BETA, NETWORK, DATA, EVALUATION, MACHINE = (
    "run",
    "algorithm (the paper's symbols)",
    "parts of a variant",
    "temperature of beta",
    "networks",
    "data",
    "evaluation and files",
    "machine",
)


# What a run keeps of its policies: that of the best evaluation, and the newest.
POLICIES = ("best", "last")


def starting_from_preset(options: type) -> type:
    """Makes the constructor start from the preset: what is not given has the preset's value.

    So `Config(env="Hopper-v4")` and `virel-tf --env=Hopper-v4` are the same settings.
    """
    # The class itself is meant, not a subclass with another constructor.
    plain = options.__init__  # type: ignore[misc]

    @functools.wraps(plain)
    def init(self: Config, **given: Any) -> None:
        fields = {field.name: field for field in dataclasses.fields(options)}
        names = ("preset", "env", "variant")
        which = [given.get(name, fields[name].default) for name in names]
        for name, value in zip(names, which, strict=True):
            check_value(fields[name], value)
        plain(self, **(preset_values(*which) | given))

    options.__init__ = init  # type: ignore[misc]
    return options


@starting_from_preset
@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What a run is. Field names are the flag names.

    Settings that are not given come from the preset.
    """

    env: str = option(
        "InvertedPendulum-v4",
        RUN,
        "gymnasium id of an environment with a Box action space",
        first=True,
    )
    variant: str = option(
        "beta",
        RUN,
        "algorithm; `virel-tf variants` shows them side by side",
        choices=RECIPES,
        first=True,
    )
    seed: int = option(
        1,
        RUN,
        "seed of networks, replay, environments and exploration",
        least=0,
        most=2**28,
        first=True,
    )
    total_steps: int = option(
        1_000_000, RUN, "environment steps to train for", least=1, may_change=True, first=True
    )
    preset: str = option(
        "modern",
        RUN,
        "table of parameter values to start from; none: virel's own in the paper",
        choices=tuple(preset_names()),
        may_change=True,
        first=True,
    )
    run_dir: str = option(
        "",
        RUN,
        "where the run writes (default runs/ENV/VARIANT/seedSEED)",
        may_change=True,
        first=True,
    )
    resume: str = option(
        "auto",
        RUN,
        "auto: resume the run if there is one; never: an error if there is one",
        choices=("auto", "never"),
        may_change=True,
        first=True,
    )

    discount: float = option(0.99, PAPER, "gamma, the discount factor", least=0, most=1)
    tau: float = option(
        0.005, PAPER, "Polyak rate of the target networks, per update", above=0, most=1
    )
    alpha: float = option(
        1.0,
        PAPER,
        "constant temperature; where it is learned, its start; for lambda_rule=relative, its level",
        least=0,
    )
    reward_scale: float = option(1.0, PAPER, "factor on every reward the learner sees", above=0)
    reward_scaling: str = option(
        "none",
        PAPER,
        "return: rewards are also divided by the running deviation of the discounted return",
        choices=("none", "return"),
    )
    value_bound: float = option(
        0.0,
        PAPER,
        "the value of s' in a TD target is clipped to +-value_bound, and with reward_scaling=return "
        "rewards are divided by enough that the returns seen stay within it (0: no bound)",
        least=0,
    )
    policy_regulariser: float = option(
        1e-3, PAPER, "weight of mean(loc^2) + mean(log_scale^2) in the policy loss", least=0
    )
    value_learning_rate: float = option(3e-4, PAPER, "Adam step size of Q and V", above=0)
    policy_learning_rate: float = option(3e-4, PAPER, "Adam step size of the policy", above=0)
    adam_beta_1: float = option(
        0.9, PAPER, "Adam's decay of the mean gradient", least=0, most=0.999
    )
    adam_beta_2: float = option(
        0.999,
        PAPER,
        "the networks' Adam: decay of the mean squared gradient; less keeps a "
        "sudden large gradient from making a large step",
        least=0,
        most=0.9999,
    )
    batch_size: int = option(128, PAPER, "transitions per update", least=1, first=True)
    n_step: int = option(
        1, PAPER, "rewards added up before the target bootstraps", least=1, most=100
    )

    critics: int = option(
        0, PARTS, "number of Qs, whose minimum is used (0: the variant's)", least=0, most=20
    )
    bootstrap: str = option(
        "variant",
        PARTS,
        "what stands for the value of s': a learned V (v), Q at the policy's "
        "action (q), at the target policy's (target_q), at the best action found near it "
        "(optimal_q), all by target networks, or the learned Q itself (self); variant: its own",
        choices=("variant", *NAMES["bootstrap"]),
    )
    policy_period: int = option(
        0, PARTS, "updates from one E-step to the next (0: the variant's)", least=0, most=100
    )
    policy_averaging: int = option(
        0,
        PARTS,
        "environment steps over which the policy that is evaluated and exported "
        "is averaged (0: the newest policy)",
        least=0,
    )
    m_step: str = option(
        "variant",
        PARTS,
        "gradient of the M-step: target held fixed (direct), residual gradient "
        "(residual), projected residual (gtd2, tdc), the whole ELBO's (elbo); variant: its own",
        choices=("variant", *NAMES["m_step"]),
    )
    e_step: str = option(
        "variant",
        PARTS,
        "gradient estimator of the E-step; variant: its own",
        choices=("variant", *NAMES["e_step"]),
    )
    temperature: str = option(
        "variant",
        PARTS,
        "factor on the entropy: alpha (constant), tuned to the target entropy "
        "(learned), epsilon (residual), lambda epsilon (scaled_residual), lambda epsilon(s) of "
        "each state (state_residual); variant: its own",
        choices=("variant", *NAMES["temperature"]),
    )
    target_entropy: float = option(
        -1.0, PARTS, "what a learned temperature or lambda aims at, nats per action number"
    )
    temperature_learning_rate: float = option(
        3e-4, PARTS, "Adam step size of a learned temperature or lambda", above=0
    )

    epsilon_estimator: str = option(
        "running",
        BETA,
        "running: mean over the batches of recent updates; buffer: "
        "the paper's fresh epsilon_samples before every update",
        choices=("running", "buffer"),
    )
    epsilon_samples: int = option(4096, BETA, "N_epsilon, transitions behind one estimate", least=1)
    lambda_beta: float = option(4e-3, BETA, "lambda, factor on epsilon", above=0)
    temperature_bound: float = option(
        0.0, BETA, "the most that lambda epsilon may be (0: no bound)", least=0
    )
    lambda_rule: str = option(
        "constant",
        BETA,
        "lambda: lambda_beta (constant), (1 - discount) / mean |reward| "
        "(rewards), alpha / long-run mean of epsilon (relative), tuned to the target entropy "
        "(entropy)",
        choices=("constant", "rewards", "relative", "entropy"),
    )

    hidden: int = option(300, NETWORK, "units per hidden layer", least=1, first=True)
    layers: int = option(2, NETWORK, "hidden layers", least=1)
    activation: str = option(
        "relu", NETWORK, "after each hidden layer", choices=("relu", "tanh", "elu", "silu")
    )
    normalisation: str = option(
        "none",
        NETWORK,
        "layer: before each activation of Q and V; batch: of the input and "
        "after each activation of Q, V and the policy",
        choices=("none", "layer", "batch"),
    )
    initial_weights: str = option(
        "glorot",
        NETWORK,
        "kernels at the start: uniform as Glorot and Bengio or as He et "
        "al. have them, or orthogonal times sqrt(2)",
        choices=("glorot", "he_uniform", "orthogonal"),
    )
    normalise_observations: bool = option(
        False, NETWORK, "scale observations by their running mean and deviation"
    )

    num_envs: int = option(1, DATA, "environments stepped side by side", least=1, first=True)
    random_steps: int = option(
        1000, DATA, "first steps with uniformly random actions, without updates", least=0
    )
    path_length: int = option(
        999, DATA, "steps after which a training episode is truncated", least=1
    )
    steps_per_iteration: int = option(
        20, DATA, "environment steps between two calls of the learner", least=1, flag=False
    )
    updates_per_step: int = option(1, DATA, "E- and M-step pairs per environment step", least=0)
    replay_size: int = option(1_000_000, DATA, "transitions kept", least=2, first=True)

    eval_every: int = option(
        1000, EVALUATION, "environment steps between evaluations", least=1, first=True
    )
    eval_steps: int = option(
        1000, EVALUATION, "environment steps per evaluation (at least one whole episode)", least=1
    )
    eval_episodes: int = option(
        0,
        EVALUATION,
        "episodes per evaluation (0: as many as fit into eval_steps)",
        least=0,
        first=True,
    )
    diagnostics: bool = option(
        False, EVALUATION, "log the ELBO and KL(policy || Boltzmann policy) at evaluations"
    )
    checkpoint_every: int = option(
        5000,
        EVALUATION,
        "environment steps between checkpoints",
        least=1,
        may_change=True,
        first=True,
    )

    threads: int = option(0, MACHINE, "cores to use (0: all)", least=0, may_change=True, first=True)
    xla: bool = option(
        False, MACHINE, "compile updates with XLA (does not pay on a CPU)", flag=False
    )
    precision: str = option(
        "float32",
        MACHINE,
        "arithmetic of the networks' layers",
        choices=("float32", "mixed_bfloat16"),
        flag=False,
    )

    def __post_init__(self) -> None:
        check_options(self)
        if not self.env:
            raise ConfigError(
                "env", "'' is not allowed; it must be the id of a gymnasium environment"
            )
        if self.steps_per_iteration % self.num_envs:
            raise ConfigError(
                "num_envs",
                f"{self.num_envs} is not allowed; it must divide steps_per_iteration, which is "
                f"{self.steps_per_iteration}",
            )
        recipe = self.recipe  # raises where a setting and the variant's parts do not go together
        if self.diagnostics and recipe.policy == "deterministic":
            raise ConfigError(
                "diagnostics",
                f"not allowed with variant={self.variant}, whose policy is deterministic and so "
                "has no density; leave it out",
            )
        if self.normalisation == "batch" and recipe.m_step in ("residual", "gtd2", "tdc", "elbo"):
            raise ConfigError(
                "m_step",
                f"{recipe.m_step!r} is not allowed with normalisation=batch; it must be direct, or"
                " the normalisation none or layer (preset=paper has none)",
            )
        if self.normalisation == "batch" and recipe.bootstrap == "optimal_q":
            raise ConfigError(
                "bootstrap",
                "'optimal_q' is not allowed with normalisation=batch; it must be one of variant,"
                " v, q, target_q, self",
            )
        for name in ("batch_size", "num_envs"):
            if self.replay_size < getattr(self, name):
                raise ConfigError(
                    "replay_size",
                    f"{self.replay_size} is less than {name}, which is {getattr(self, name)}",
                )

    @classmethod
    def from_preset(cls, preset: str, **settings: Any) -> Config:
        """The preset's values for the environment and variant, and the given settings."""
        return cls(preset=preset, **settings)

    @property
    def recipe(self) -> Recipe:
        """The variant, with the parts that settings exchange."""
        recipe = RECIPES[self.variant]
        changes: dict[str, Any] = {}
        if self.critics:
            kinds = len(set(recipe.critics))
            if self.critics < kinds:
                raise ConfigError(
                    "critics",
                    f"{self.critics} is not allowed with variant={self.variant}, whose critics are"
                    f" {recipe.parts()['critics']}; it must be 0 or at least {kinds}",
                )
            changes["critics"] = tuple(
                itertools.islice(itertools.cycle(recipe.critics), self.critics)
            )
        for field in ("m_step", "e_step", "temperature", "bootstrap"):
            if getattr(self, field) != "variant":
                changes[field] = getattr(self, field)
        if self.policy_period:
            changes["policy_period"] = self.policy_period
        critics = changes.get("critics", recipe.critics)
        if recipe.target_subset > len(critics):
            changes["target_subset"] = len(critics)
        if fault := clash({**vars(recipe), **changes}):
            field, why, allowed = fault
            raise ConfigError(
                field,
                f"{changes[field]!r} is not allowed with variant={self.variant}, which has {why};"
                f" it must be one of variant, {', '.join(allowed)}",
            )
        return dataclasses.replace(recipe, **changes)

    @property
    def directory(self) -> Path:
        """Where this run writes."""
        return Path(
            self.run_dir or f"runs/{self.env.replace('/', '_')}/{self.variant}/seed{self.seed}"
        )
