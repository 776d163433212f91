"""Which settings a variant makes use of, so that one given in vain can be told."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from virel_tf.algorithms.recipe import Recipe

if TYPE_CHECKING:
    from virel_tf.config import Config

Test = Callable[[Recipe, "Config"], bool]


def follows_residual(recipe: Recipe, config: Config) -> bool:
    """Whether epsilon moves anything."""
    return cools_with_residual(recipe, config) or recipe.m_step == "elbo"


def cools_with_residual(recipe: Recipe, config: Config) -> bool:
    """Whether the temperature follows epsilon. The ELBO's M-step takes the running one, whatever the estimator is."""
    return recipe.temperature in ("residual", "scaled_residual")


def scales_residual(recipe: Recipe, config: Config) -> bool:
    """Whether the temperature is lambda epsilon."""
    return recipe.temperature == "scaled_residual"


def learns_factor(recipe: Recipe, config: Config) -> bool:
    """Whether the temperature, or lambda, is tuned to an entropy."""
    return recipe.temperature == "learned" or scales_residual(recipe, config) and config.lambda_rule == "entropy"


def regresses_on_slow(recipe: Recipe, config: Config) -> bool:
    """Whether the Qs bootstrap on the recipe's slow networks and not on themselves."""
    return recipe.m_step == "direct"


def uses_slow(recipe: Recipe, config: Config) -> bool:
    """Whether a slow network moves anything: in the targets of Q, or as the score estimator's baseline."""
    return (regresses_on_slow(recipe, config) or recipe.bootstrap == "target_q"
            or recipe.bootstrap == "v" and recipe.e_step == "score")


def several_in_residual(recipe: Recipe, config: Config) -> bool:
    """Whether epsilon moves anything and is of several Qs: of the hard ones, where there are any."""
    return follows_residual(recipe, config) and (recipe.critics.count("hard") or len(recipe.critics)) > 1


# (setting, whether it matters, what it belongs to). Settings that are not here matter always. Parts that are
# functions of the user's own may read any setting, so nothing is said of those.
RULES: tuple[tuple[tuple[str, ...], Test, str], ...] = (
    (("bootstrap", "tau"), uses_slow, "--m_step=direct; this M-step bootstraps on the Qs themselves"),
    (("climb_steps",), lambda recipe, config: recipe.bootstrap == "optimal_q" and regresses_on_slow(recipe, config),
     "--bootstrap=optimal_q with --m_step=direct"),
    (("alpha",), lambda recipe, _: recipe.temperature != "zero", "a temperature other than 0"),
    (("epsilon_value",), regresses_on_slow, "--m_step=direct; this M-step bootstraps on the Qs themselves"),
    (("zeta_learning_rate",), lambda recipe, _: recipe.m_step in ("gtd2", "tdc"), "--m_step=gtd2 or tdc"),
    (("boltzmann_actions",), lambda recipe, _: recipe.m_step == "elbo", "--m_step=elbo"),
    (("target_entropy", "temperature_learning_rate"), learns_factor, "--temperature=learned or --lambda_rule=entropy"),
    (("soft_reward_scale",), lambda recipe, _: {"hard", "soft"} <= set(recipe.critics), "a hard and a soft critic"),
    (("prior_period",), lambda recipe, _: recipe.prior == "old_policy", "the old policy as prior"),
    (("ou_theta", "ou_sigma"), lambda recipe, _: recipe.exploration == "ornstein_uhlenbeck",
     "Ornstein-Uhlenbeck noise"),
    (("epsilon_estimator", "epsilon_warmup"), cools_with_residual, "a temperature that follows epsilon"),
    (("epsilon_critics",), several_in_residual, "a temperature that follows epsilon, and several critics in it"),
    (("lambda_rule",), scales_residual, "--temperature=scaled_residual"),
    (("lambda_beta",), lambda recipe, config: scales_residual(recipe, config) and config.lambda_rule in (
        "constant", "entropy"), "--temperature=scaled_residual with --lambda_rule=constant or entropy"),
)


def notes_on_unused(config: Config, given: Collection[str]) -> list[str]:
    """One line for each setting in `given` that this run makes no use of."""
    recipe = config.recipe
    if any(callable(part) for part in (recipe.m_step, recipe.e_step, recipe.temperature, *recipe.critics)):
        return []
    return [f"--{name} has no effect on this run of {config.variant}: it belongs to {owner}"
            for names, matters, owner in RULES for name in names if name in given and not matters(recipe, config)]
