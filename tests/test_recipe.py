"""Which parts go together, by flags and in recipes of the user's own."""

from __future__ import annotations

import dataclasses

import pytest

from virel_tf.config import Config
from virel_tf.errors import ConfigError
from virel_tf.recipe import Recipe
from virel_tf.registry import RECIPES


@pytest.mark.parametrize(
    "flags, named",
    [
        (dict(variant="ddpg", e_step="score"), "e_step"),
        (dict(variant="ddpg", temperature="constant"), "temperature"),
        (dict(variant="sac", e_step="deterministic"), "e_step"),
        (dict(variant="mpo", e_step="expected"), "e_step"),
        (dict(variant="sac", m_step="elbo"), "m_step"),
        (dict(variant="virel2", bootstrap="optimal_q"), "bootstrap"),
        (dict(variant="virel2", critics=1), "critics"),
    ],
)
def test_parts_that_do_not_go_together_are_named(flags, named):
    with pytest.raises(ConfigError, match=f"variant={flags['variant']}") as caught:
        Config(**flags)
    assert caught.value.setting == named


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


@pytest.mark.parametrize(
    "number",
    [
        dict(epsilon_p=0.5),
        dict(epsilon_c=0.0),
        dict(epsilon_warmup="never"),
        dict(epsilon_value=1),
        dict(climb_steps=0),
        dict(climb_steps=1.5),
        dict(ou_theta=2.0),
        dict(boltzmann_actions=1),
        dict(target_noise_clip=float("nan")),
    ],
    ids=str,
)
def test_a_number_of_a_recipe_that_is_not_allowed_is_named(number):
    (name,) = number
    with pytest.raises(ConfigError) as caught:
        Recipe(**number)
    assert caught.value.setting == name


def test_a_whole_number_may_stand_for_a_number():
    assert type(Recipe(epsilon_p=1).epsilon_p) is float


def test_recipes_with_other_numbers_have_other_parts():
    assert Recipe().parts() != Recipe(prior_period=3).parts()
    assert Recipe().parts() == Recipe(about="the same").parts()
