"""Every setting of a run, once: its default, its unit, what is allowed, and where its value came
from.

`Config` is a flat frozen dataclass; the command line makes one flag per field, in the groups given
here. Nothing in the library reads flags: it is handed a `Config`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from virel_tf.algorithms.recipe import NAMES, Recipe, adjusted
from virel_tf.algorithms.registry import RECIPES
from virel_tf.errors import ConfigError


def option(
    default: Any,
    group: str,
    help: str,
    *,
    choices: Collection[str] = (),
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    may_change: bool = False,
) -> Any:
    """One setting. `may_change`.

    A resumed run may have another value, since the numbers do not depend on it.
    """
    metadata = dict(
        group=group,
        help=help,
        choices=choices,
        least=least,
        above=above,
        most=most,
        may_change=may_change,
    )
    return dataclasses.field(default=default, metadata=metadata)


WORDS = (  # the type of a field that takes the words after a command, which are no flags
    "tuple[str, ...]"
)


RUN, PAPER, PARTS, BETA, NETWORK, DATA, EVALUATION, MACHINE, GRID, POOL = (
    "run",
    "algorithm (the paper's symbols)",
    "parts of a variant",
    "temperature of beta",
    "networks",
    "data",
    "evaluation and files",
    "machine",
    "grid",
    "where the runs run",
)


POLICIES = (
    "best",
    "last",
)  # what a run keeps of its policies: that of the best evaluation, and the newest


def starting_from_preset(options: type) -> type:
    """Makes the constructor start from the preset: what is not given has the preset's value, not
    the field's default.

    So `Config(env="Hopper-v4")` and `virel-tf --env=Hopper-v4` are the same settings.
    """
    plain = options.__init__

    @functools.wraps(plain)
    def init(self: Any, **given: Any) -> None:
        fields = {field.name: field for field in dataclasses.fields(options)}
        which = [given.get(name, fields[name].default) for name in ("preset", "env", "variant")]
        for name, value in zip(("preset", "env", "variant"), which, strict=True):
            check_value(fields[name], value)
        plain(self, **(preset_values(*which) | given))

    options.__init__ = init
    return options


@starting_from_preset
@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What a run is. Field names are the flag names.

    Settings that are not given come from the preset.
    """

    env: str = option(
        "InvertedPendulum-v4", RUN, "gymnasium id of an environment with a Box action space"
    )
    variant: str = option(
        "beta", RUN, "algorithm; `virel-tf variants` shows them side by side", choices=RECIPES
    )
    seed: int = option(
        1, RUN, "seed of networks, replay, environments and exploration", least=0, most=2**28
    )
    total_steps: int = option(
        1_000_000, RUN, "environment steps to train for", least=1, may_change=True
    )
    preset: str = option(
        "modern",
        RUN,
        "table of parameter values to start from; none: virel's own in the paper",
        may_change=True,
    )
    run_dir: str = option(
        "", RUN, "where the run writes (default runs/ENV/VARIANT/seedSEED)", may_change=True
    )
    resume: str = option(
        "auto",
        RUN,
        "auto: go on where the run stopped; never: start afresh, overwrite nothing",
        choices=("auto", "never"),
        may_change=True,
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
    batch_size: int = option(128, PAPER, "transitions per update", least=1)
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
    target_subset: int = option(
        0,
        PARTS,
        "how many Qs, drawn at random for each update, a target takes the minimum of "
        "(0: the variant's)",
        least=0,
        most=20,
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
    target_noise_sigma: float = option(
        0.2, PARTS, "td3: deviation of the noise on the next action", least=0
    )
    target_noise_clip: float = option(0.5, PARTS, "td3: bound of that noise", least=0)
    climb_steps: int = option(
        5, PARTS, "bootstrap=optimal_q: steps up Q from the policy's action", least=1, most=100
    )
    m_step: str = option(
        "variant",
        PARTS,
        "gradient of the M-step: target held fixed (direct), residual gradient "
        "(residual), projected residual (gtd2, tdc), the whole ELBO's (elbo); variant: its own",
        choices=("variant", *NAMES["m_step"]),
    )
    zeta_learning_rate: float = option(3e-4, PARTS, "gtd2, tdc: Adam step size of zeta", above=0)
    boltzmann_actions: int = option(
        8, PARTS, "elbo: actions per state that stand for the Boltzmann policy", least=2
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
    soft_reward_scale: float = option(
        0.0,
        PARTS,
        "virel2: factor on the soft critic's rewards (0: follows rewards and "
        "entropy so that both critics' means align)",
        least=0,
    )
    prior_period: int = option(
        100,
        PARTS,
        "mpo: updates after which the old policy is replaced by the present one",
        least=1,
    )
    ou_theta: float = option(
        0.15,
        PARTS,
        "ddpg: how fast the Ornstein-Uhlenbeck noise returns to 0, per step",
        least=0,
        most=1,
    )
    ou_sigma: float = option(
        0.2, PARTS, "ddpg: deviation of what is added to that noise, per step", least=0
    )
    exploration_sigma: float = option(0.1, PARTS, "td3: deviation of the noise on actions", least=0)

    epsilon_estimator: str = option(
        "running",
        BETA,
        "running: mean over the batches of recent updates; buffer: "
        "the paper's fresh epsilon_samples before every update",
        choices=("running", "buffer"),
    )
    epsilon_samples: int = option(4096, BETA, "N_epsilon, transitions behind one estimate", least=1)
    epsilon_c: float = option(
        2.0, BETA, "c in epsilon = c/p |T Q - Q|_p^p (2 gives Algorithm 2's mean square)", above=0
    )
    epsilon_p: float = option(2.0, BETA, "p in the same; 1 has the units of the reward", least=1)
    epsilon_value: str = option(
        "target",
        BETA,
        "V inside epsilon: the target's (Algorithm 2) or the online one's",
        choices=("target", "online"),
    )
    epsilon_warmup: str = option(
        "alpha",
        BETA,
        "until epsilon_samples steps were taken: alpha: temperature alpha; "
        "one: epsilon counts as 1 (the authors); none: estimate at once",
        choices=("alpha", "one", "none"),
    )
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
    epsilon_critics: str = option(
        "each",
        BETA,
        "with several hard Qs: epsilon of each, averaged, or of their minimum",
        choices=("each", "minimum"),
    )

    hidden: int = option(300, NETWORK, "units per hidden layer", least=1)
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

    num_envs: int = option(1, DATA, "environments stepped side by side", least=1)
    random_steps: int = option(
        1000, DATA, "first steps with uniformly random actions, without updates", least=0
    )
    path_length: int = option(
        999, DATA, "steps after which a training episode is truncated", least=1
    )
    steps_per_iteration: int = option(
        20, DATA, "environment steps between two calls of the learner", least=1
    )
    updates_per_step: int = option(1, DATA, "E- and M-step pairs per environment step", least=0)
    replay_size: int = option(1_000_000, DATA, "transitions kept", least=2)

    eval_every: int = option(1000, EVALUATION, "environment steps between evaluations", least=1)
    eval_steps: int = option(
        1000, EVALUATION, "environment steps per evaluation (at least one whole episode)", least=1
    )
    eval_episodes: int = option(
        0, EVALUATION, "episodes per evaluation (0: as many as fit into eval_steps)", least=0
    )
    diagnostics: bool = option(
        False, EVALUATION, "log the ELBO and KL(policy || Boltzmann policy) at evaluations"
    )
    checkpoint_every: int = option(
        5000, EVALUATION, "environment steps between checkpoints", least=1, may_change=True
    )

    threads: int = option(0, MACHINE, "cores to use (0: all)", least=0, may_change=True)
    xla: bool = option(False, MACHINE, "compile updates with XLA (does not pay on a CPU)")
    precision: str = option(
        "float32",
        MACHINE,
        "arithmetic of the networks' layers",
        choices=("float32", "mixed_bfloat16"),
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if (
                field.type == "float" and type(value) is int
            ):  # Config(reward_scale=5), written in Python
                value = float(value)
                object.__setattr__(self, field.name, value)
            check_value(field, value)
        if not self.env:
            raise ConfigError(
                "--env: '' is not allowed; it must be the id of a gymnasium environment"
            )
        if self.steps_per_iteration % self.num_envs:
            raise ConfigError(
                f"--steps_per_iteration: {self.steps_per_iteration} is not a multiple of "
                f"--num_envs={self.num_envs}"
            )
        # raises where a flag and the variant's parts do not go together
        adjusted(RECIPES[self.variant], self)
        if self.diagnostics and self.recipe.policy == "deterministic":
            raise ConfigError(
                f"--diagnostics: not allowed with --variant={self.variant}, whose policy is "
                "deterministic and so has no density; leave it out"
            )
        if self.normalisation == "batch" and self.recipe.m_step in (
            "residual",
            "gtd2",
            "tdc",
            "elbo",
        ):
            raise ConfigError(
                f"--m_step: {self.recipe.m_step!r} is not allowed with --normalisation=batch; it"
                " must be direct, or the normalisation none or layer (--preset=paper has none)"
            )
        if self.normalisation == "batch" and self.recipe.bootstrap == "optimal_q":
            raise ConfigError(
                "--bootstrap: 'optimal_q' is not allowed with --normalisation=batch; it must be one"
                " of variant, v, q, target_q, self"
            )
        for name in ("batch_size", "num_envs"):
            if self.replay_size < getattr(self, name):
                raise ConfigError(
                    f"--replay_size: {self.replay_size} is less than --{name}={getattr(self, name)}"
                )

    @property
    def recipe(self) -> Recipe:
        """The variant, with the parts that flags exchange."""
        return adjusted(RECIPES[self.variant], self)

    @property
    def directory(self) -> Path:
        """Where this run writes."""
        return Path(
            self.run_dir or f"runs/{self.env.replace('/', '_')}/{self.variant}/seed{self.seed}"
        )


def option_type(field: dataclasses.Field) -> type:
    """The Python type of a field (annotations are strings here)."""
    return {"int": int, "float": float, "bool": bool, "str": str}[field.type]


def allowed(field: dataclasses.Field) -> str:
    """What a field may be, in words."""
    meta = field.metadata
    if meta["choices"]:
        return "one of " + ", ".join(meta["choices"])
    kind = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}[
        field.type
    ]
    bounds = [
        f"of at least {meta['least']}" if meta["least"] is not None else "",
        f"above {meta['above']}" if meta["above"] is not None else "",
        f"at most {meta['most']}" if meta["most"] is not None else "",
    ]
    return " ".join([kind, " and ".join(bound for bound in bounds if bound)]).strip()


def check_value(field: dataclasses.Field, value: Any) -> None:
    """Raises ConfigError where `value` is not what the field allows."""
    meta = field.metadata
    good = isinstance(value, option_type(field)) and (
        field.type == "bool" or not isinstance(value, bool)
    )
    if good and field.type in ("int", "float"):
        # Whole numbers must fit into TensorFlow's int64, numbers into a float.
        good = (
            (abs(value) < 2**63 if field.type == "int" else math.isfinite(value))
            and (meta["least"] is None or value >= meta["least"])
            and (meta["above"] is None or value > meta["above"])
            and (meta["most"] is None or value <= meta["most"])
        )
    if good and meta["choices"]:
        good = value in meta["choices"]
    if not good:
        raise ConfigError(
            f"--{field.name}: {value!r} is not allowed; it must be {allowed(field)}"
            + did_you_mean(str(value), meta["choices"])
        )


def did_you_mean(word: str, possible: Iterable[str]) -> str:
    """A hint, to end a message with, at what a mistyped word may have meant.

    Empty where nothing is close.
    """
    possible = list(possible)
    within = [
        name for name in possible if f"_{word.lower()}_" in f"_{name}_"
    ]  # steps: total_steps, not n_step
    close = within or difflib.get_close_matches(word.lower(), possible, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def environment_family(env: str) -> str:
    """The name of an environment without its version and where it comes from.

    Hopper of Hopper-v4.
    """
    return re.sub(r"-v\d+$", "", env.split("/")[-1].split(":")[-1])


def presets_folder() -> Path:
    """configs/: inside an installed package, beside the package in a source tree."""
    package = Path(__file__).resolve().parent
    return next(
        folder for folder in (package / "configs", package.parent / "configs") if folder.is_dir()
    )


def preset_files(preset: str, env: str, variant: str) -> list[Path]:
    """The flagfiles of a preset.

    The rows for all, then the environment's own, then the variant's.
    """
    if preset == "none":
        return []
    names = sorted(
        path.name
        for path in presets_folder().iterdir()
        if path.is_dir() and path.name[0] not in "._"
    )
    if preset not in names:
        raise ConfigError(
            f"--preset: {preset!r} is not allowed; it must be one of {', '.join(names + ['none'])}"
            + did_you_mean(str(preset), names + ["none"])
        )
    names = ("all.flags", f"{environment_family(env)}.flags", f"{variant}.flags")
    files = [presets_folder() / preset / name for name in names]
    return [path for path in files if path.is_file()]


@functools.cache
def preset_values(preset: str, env: str, variant: str) -> dict[str, Any]:
    """What a preset's files set, later files over earlier ones."""
    fields = {field.name: field for field in dataclasses.fields(Config)}
    values = {}
    for path in preset_files(preset, env, variant):
        for line in path.read_text().splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            name, equals, text = line.strip().removeprefix("--").partition("=")
            if name not in fields or not equals:
                raise ConfigError(
                    f"--preset: {path}: {line!r} is not a setting; lines are --name=value"
                )
            values[name] = read_value(option_type(fields[name]), text)
            check_value(fields[name], values[name])
    return values


def read_value(kind: type, text: str) -> Any:
    """The value that `text` stands for, or the text itself where it stands for none of that kind."""
    if kind is bool:
        return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(
            text.lower(), text
        )
    for read in {int: (int, whole_number), float: (float,)}.get(kind, ()):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def whole_number(text: str) -> int:
    """1e5 is a whole number too."""
    if not float(text).is_integer():
        raise ValueError(text)
    return int(float(text))
