"""Every variant, side by side.

A new one is one more entry; fields left out are virel's (see `Recipe`).
"""

from __future__ import annotations

from virel_tf.errors import ConfigError
from virel_tf.recipe import Recipe

RECIPES: dict[str, Recipe] = {
    "virel": Recipe(about="VIREL, Algorithm 1: entropy scaled by a constant"),
    "beta": Recipe(
        temperature="scaled_residual",
        about="VIREL, Algorithm 2: entropy scaled by lambda times the residual error",
    ),
    "virel1": Recipe(
        critics=("hard", "hard"), about="VIREL, section 5: the minimum of two hard Qs"
    ),
    "virel2": Recipe(
        critics=("hard", "soft"), about="VIREL, section 5: the minimum of a hard and a soft Q"
    ),
    "sac_v1": Recipe(critics=("soft",), about="Haarnoja et al. 2018a: soft Q and V"),
    "sac": Recipe(
        critics=("soft", "soft"),
        bootstrap="q",
        temperature="learned",
        about="Haarnoja et al. 2018b: two soft Qs, no V, learned temperature",
    ),
    "ddpg": Recipe(
        bootstrap="target_q",
        policy="deterministic",
        e_step="deterministic",
        temperature="zero",
        exploration="ornstein_uhlenbeck",
        about="Lillicrap et al. 2016: deterministic policy gradient",
    ),
    "mpo": Recipe(
        prior="old_policy",
        temperature="residual",
        about=(
            "VIREL, appendix: KL to the old policy scaled by epsilon; not Abdolmaleki et al.'s "
            "MPO, which weights actions"
        ),
    ),
    "td3": Recipe(
        critics=("hard", "hard"),
        bootstrap="target_q",
        policy="deterministic",
        e_step="deterministic",
        temperature="zero",
        exploration="gaussian",
        target_noise="clipped",
        policy_period=2,
        about="Fujimoto et al. 2018: DDPG with two Qs, a smoothed target and a delayed policy",
    ),
    "crossq": Recipe(
        critics=("soft", "soft"),
        bootstrap="self",
        temperature="learned",
        policy_period=3,
        about="Bhatt et al. 2024: SAC without target networks; needs --normalisation=batch",
    ),
    "redq": Recipe(
        critics=("soft",) * 10,
        bootstrap="q",
        temperature="learned",
        policy_q="mean",
        target_subset=2,
        policy_period=20,
        about="Chen et al. 2021: ten soft Qs, targets from a random pair; 20 updates a step",
    ),
}


SHIPPED = frozenset(RECIPES)


def register(name: str, recipe: Recipe) -> None:
    """Registers a recipe of your own under a name.

    `Config(variant=NAME)` and everything that takes a `Config` then know it.

    Registering a name of yours again replaces its recipe; the names that ship with the package stay
    as they are.
    """
    if name in SHIPPED:
        raise ConfigError(None, f"register: {name!r} is not allowed; it ships with the package")
    RECIPES[name] = recipe


def variants_table() -> str:
    """All variants as a text table, one per line, and below it what each is."""
    rows = [{"variant": name, **recipe.row()} for name, recipe in RECIPES.items()]
    widths = {column: max(len(column), *(len(row[column]) for row in rows)) for column in rows[0]}
    lines = [
        {column: column for column in widths},
        {column: "-" * width for column, width in widths.items()},
        *rows,
    ]
    table = [
        "  ".join(f"{line[column]:<{width}}" for column, width in widths.items()).rstrip()
        for line in lines
    ]
    about = [f"{name:<{widths['variant']}}  {recipe.about}" for name, recipe in RECIPES.items()]
    return "\n".join([*table, "", *about])
