"""Which settings a variant makes use of, so that one that has no effect can be named."""

from __future__ import annotations

from collections.abc import Callable, Collection

from virel_tf.config import Config
from virel_tf.recipe import Recipe

Test = Callable[[Recipe, Config], bool]


def follows_residual(recipe: Recipe, config: Config) -> bool:
    """Whether epsilon moves anything."""
    return cools_with_residual(recipe, config) or recipe.m_step == "elbo"


def cools_with_residual(recipe: Recipe, config: Config) -> bool:
    """Whether the temperature follows epsilon.

    The ELBO's M-step takes the running one, whatever the estimator is.
    """
    return recipe.temperature in ("residual", "scaled_residual")


def scales_residual(recipe: Recipe, config: Config) -> bool:
    """Whether the temperature is lambda epsilon."""
    return recipe.temperature == "scaled_residual"


def learns_factor(recipe: Recipe, config: Config) -> bool:
    """Whether the temperature, or lambda, is tuned to an entropy."""
    if recipe.temperature in ("learned", "state_residual"):
        return True
    return scales_residual(recipe, config) and config.lambda_rule == "entropy"


def bootstraps_as_recipe_says(recipe: Recipe, config: Config) -> bool:
    """Whether `bootstrap` decides what the Qs bootstrap on.

    M-steps but the direct one take the Qs themselves.
    """
    return recipe.m_step == "direct"


def uses_bootstrap(recipe: Recipe, config: Config) -> bool:
    """Whether `bootstrap` moves anything: the TD targets, or the score estimator's baseline."""
    return (
        bootstraps_as_recipe_says(recipe, config)
        or recipe.bootstrap == "target_q"
        or (recipe.bootstrap == "v" and recipe.e_step == "score")
    )


def uses_target_networks(recipe: Recipe, config: Config) -> bool:
    """Whether a target network moves anything."""
    return uses_bootstrap(recipe, config) and recipe.bootstrap != "self"


# (setting, whether it matters, what it belongs to). Settings that are not here matter always. Parts
# that are functions of the user's own may read any setting, so nothing is said of those.
RULES: tuple[tuple[tuple[str, ...], Test, str], ...] = (
    (
        ("bootstrap",),
        uses_bootstrap,
        "m_step=direct; this M-step bootstraps on the Qs themselves",
    ),
    (("tau",), uses_target_networks, "target networks; this run bootstraps on the Qs themselves"),
    (("temperature_bound",), cools_with_residual, "a temperature that follows epsilon"),
    (("eval_steps",), lambda _, config: not config.eval_episodes, "eval_episodes=0"),
    (("alpha",), lambda recipe, _: recipe.temperature != "zero", "a temperature other than 0"),
    (
        ("target_entropy", "temperature_learning_rate"),
        learns_factor,
        "temperature=learned or state_residual, or lambda_rule=entropy",
    ),
    (("epsilon_estimator",), cools_with_residual, "a temperature that follows epsilon"),
    (("lambda_rule",), scales_residual, "temperature=scaled_residual"),
    (
        ("lambda_beta",),
        lambda recipe, config: (
            scales_residual(recipe, config) and config.lambda_rule in ("constant", "entropy")
        ),
        "temperature=scaled_residual with lambda_rule=constant or entropy",
    ),
)


def unused_settings(config: Config, given: Collection[str]) -> list[str]:
    """One line for each setting in `given` that this run makes no use of.

    The line begins with the setting's name.
    """
    recipe = config.recipe
    if any(
        callable(part)
        for part in (recipe.m_step, recipe.e_step, recipe.temperature, *recipe.critics)
    ):
        return []
    return [
        f"{name} has no effect on this run of {config.variant}: it belongs to {owner}"
        for names, matters, owner in RULES
        for name in names
        if name in given and not matters(recipe, config)
    ]
