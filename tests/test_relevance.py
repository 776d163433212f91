"""Settings that a variant makes no use of are named."""

from __future__ import annotations

import dataclasses

import pytest

from virel_tf import cli
from virel_tf.algorithms.relevance import RULES, notes_on_unused
from virel_tf.config import Config


@pytest.mark.parametrize(
    "settings, idle",
    [
        (
            dict(variant="virel"),
            {"lambda_beta", "ou_sigma", "prior_period", "zeta_learning_rate", "epsilon_warmup"},
        ),
        (
            dict(variant="beta"),
            {"ou_sigma", "prior_period", "zeta_learning_rate", "target_entropy", "epsilon_critics"},
        ),
        (dict(variant="beta", lambda_rule="entropy"), {"prior_period"}),
        (dict(variant="beta", lambda_rule="relative"), {"lambda_beta"}),
        (dict(variant="ddpg"), {"lambda_beta", "prior_period"}),
        (dict(variant="mpo"), {"lambda_beta", "lambda_rule", "ou_theta"}),
        (
            dict(variant="virel", m_step="elbo"),
            {"epsilon_estimator", "epsilon_warmup", "tau", "epsilon_value"},
        ),
        (dict(variant="ddpg", alpha=0.3), {"alpha"}),
        (
            dict(variant="virel", m_step="residual", bootstrap="optimal_q"),
            {"bootstrap", "climb_steps", "tau"},
        ),
        (
            dict(variant="beta", preset="modern"),
            {"tau", "eval_steps", "target_noise_sigma", "exploration_sigma"},
        ),
        (dict(variant="virel", preset="modern"), {"tau", "temperature_bound", "epsilon_critics"}),
        (dict(variant="beta", bootstrap="v", preset="modern"), {"target_subset"}),  # V is one
    ],
)
def test_idle_settings_are_named(settings, idle):
    config = Config(**{"preset": "paper", **settings})
    named = {note.split()[0].removeprefix("--") for note in notes_on_unused(config, idle)}
    assert named == idle


@pytest.mark.parametrize(
    "settings, busy",
    [
        (dict(variant="virel", m_step="tdc"), {"zeta_learning_rate"}),
        (dict(variant="virel2"), {"soft_reward_scale"}),
        (dict(variant="virel", m_step="elbo"), {"boltzmann_actions"}),
        (dict(variant="mpo"), {"prior_period"}),
        (dict(variant="virel", bootstrap="optimal_q"), {"climb_steps"}),
        (dict(variant="ddpg"), {"ou_theta", "ou_sigma"}),
        (
            dict(variant="beta"),
            {"lambda_beta", "lambda_rule", "epsilon_warmup", "epsilon_estimator"},
        ),
        (dict(variant="virel1", temperature="scaled_residual"), {"epsilon_critics", "lambda_beta"}),
        (
            dict(variant="sac", temperature="learned"),
            {"target_entropy", "temperature_learning_rate", "alpha", "tau"},
        ),
        # Without a hard critic epsilon is of the soft ones.
        (
            dict(variant="sac", temperature="scaled_residual", epsilon_critics="minimum"),
            {"epsilon_critics"},
        ),
        (
            dict(variant="virel", m_step="residual", e_step="score"),
            {"tau"},
        ),  # the slow V is the baseline
        (dict(variant="ddpg", m_step="residual"), {"tau"}),  # the slow policy chooses a'
        (
            dict(variant="beta", preset="modern"),
            {"epsilon_critics", "temperature_bound", "eval_episodes"},
        ),
        (dict(variant="beta", preset="modern", bootstrap="v"), {"tau"}),
        (
            dict(variant="td3"),
            {"target_noise_sigma", "target_noise_clip", "exploration_sigma", "tau"},
        ),
        (dict(variant="redq", preset="modern"), {"target_subset", "tau"}),
    ],
)
def test_settings_in_use_are_not(settings, busy):
    config = Config(**{"preset": "paper", **settings})
    assert notes_on_unused(config, {*busy, "seed", "hidden"}) == []


def test_the_rules_speak_of_settings_that_exist():
    assert {name for names, _, _ in RULES for name in names} <= {
        field.name for field in dataclasses.fields(Config)
    }


def test_the_command_line_says_so_and_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(cli, "import_tensorflow_quietly", lambda: None)
    monkeypatch.setitem(cli.COMMANDS, "train", cli.COMMANDS["train"]._replace(run=lambda config: 0))
    assert cli.main(["--env=Hopper-v4", "--variant=virel", "--ou_sigma=0.3"]) == 0
    assert (
        capsys.readouterr().err
        == "virel-tf: --ou_sigma has no effect on this run of virel: it belongs to "
        "Ornstein-Uhlenbeck noise\n"
    )
    assert cli.main(["--env=Hopper-v4", "--variant=ddpg", "--ou_sigma=0.3"]) == 0
    assert capsys.readouterr().err == ""  # the preset's lambda is not the user's
