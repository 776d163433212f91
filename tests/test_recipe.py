"""Which parts go together, by flags and in recipes of the user's own."""

from __future__ import annotations

import dataclasses

import pytest

from virel_tf.algorithms.recipe import Recipe
from virel_tf.algorithms.registry import RECIPES
from virel_tf.config import Config
from virel_tf.errors import ConfigError


@pytest.mark.parametrize(
    "flags, named",
    [
        (dict(variant="ddpg", e_step="score"), "--e_step"),
        (dict(variant="ddpg", temperature="constant"), "--temperature"),
        (dict(variant="sac", e_step="deterministic"), "--e_step"),
        (dict(variant="mpo", e_step="expected"), "--e_step"),
        (dict(variant="sac", m_step="elbo"), "--m_step"),
        (dict(variant="virel2", bootstrap="optimal_q"), "--bootstrap"),
        (dict(variant="virel2", critics=1), "--critics"),
    ],
)
def test_parts_that_do_not_go_together_are_named(flags, named):
    with pytest.raises(ConfigError, match=f"^{named}: .*--variant={flags['variant']}"):
        Config(**flags)


def test_flags_exchange_parts():
    assert Config(variant="virel2", critics=3).recipe.critics == ("hard", "soft", "hard")
    assert (
        Config(variant="virel1", temperature="scaled_residual").recipe.temperature
        == "scaled_residual"
    )
    assert Config(variant="virel", preset="none").recipe == RECIPES["virel"]
    assert Config(variant="virel").recipe == dataclasses.replace(  # the modern preset's parts
        RECIPES["virel"], critics=("hard", "hard"), bootstrap="self", policy_period=3
    )


DETERMINISTIC = dict(
    policy="deterministic",
    e_step="deterministic",
    temperature="zero",
    exploration="ornstein_uhlenbeck",
)


@pytest.mark.parametrize(
    "parts, named",
    [
        (DETERMINISTIC | dict(e_step="score"), "e_step='score'"),
        (DETERMINISTIC | dict(e_step="expected"), "e_step='expected'"),
        (DETERMINISTIC | dict(temperature="learned"), "temperature='learned'"),
        (DETERMINISTIC | dict(prior="old_policy"), "prior='old_policy'"),
        (DETERMINISTIC | dict(exploration="sample"), "exploration='sample'"),
        (dict(e_step="deterministic"), "e_step='deterministic'"),
        (dict(critics=("soft",), m_step="elbo"), "m_step='elbo'"),
        (dict(critics=("hard", "soft"), bootstrap="optimal_q"), "bootstrap='optimal_q'"),
        (dict(prior="old_policy", e_step="expected"), "e_step='expected'"),
    ],
)
def test_a_recipe_of_parts_that_do_not_go_together_is_refused(parts, named):
    with pytest.raises(
        ConfigError, match=f"^recipe: {named} is not allowed with .*; it must be one of "
    ):
        Recipe(**parts)


def test_a_function_of_the_users_own_is_taken_to_know_what_it_does():
    assert callable(Recipe(**DETERMINISTIC | dict(e_step=lambda inputs: inputs.q)).e_step)
