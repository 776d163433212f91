"""Settings that a variant makes no use of are named."""

from __future__ import annotations

import dataclasses

import pytest

from virel_tf.cli import program
from virel_tf.config import Config
from virel_tf.relevance import RULES, unused_settings


@pytest.mark.parametrize(
    "settings, idle",
    [
        (dict(variant="virel"), {"lambda_beta", "epsilon_estimator"}),
        (dict(variant="beta"), {"target_entropy"}),
        (dict(variant="beta", lambda_rule="relative"), {"lambda_beta"}),
        (dict(variant="ddpg"), {"lambda_beta"}),
        (dict(variant="mpo"), {"lambda_beta", "lambda_rule"}),
        (dict(variant="virel", m_step="elbo"), {"epsilon_estimator", "tau"}),
        (dict(variant="ddpg", alpha=0.3), {"alpha"}),
        (dict(variant="virel", m_step="residual", bootstrap="optimal_q"), {"bootstrap", "tau"}),
        (dict(variant="beta", preset="modern"), {"tau", "eval_steps"}),
        (dict(variant="virel", preset="modern"), {"tau", "temperature_bound"}),
    ],
)
def test_idle_settings_are_named(settings, idle):
    config = Config(**{"preset": "paper", **settings})
    assert {note.split()[0] for note in unused_settings(config, idle)} == idle


@pytest.mark.parametrize(
    "settings, busy",
    [
        (
            dict(variant="beta"),
            {"lambda_beta", "lambda_rule", "epsilon_estimator"},
        ),
        (dict(variant="beta", lambda_rule="entropy"), {"lambda_beta", "target_entropy"}),
        (dict(variant="virel1", temperature="scaled_residual"), {"lambda_beta"}),
        (
            dict(variant="sac", temperature="learned"),
            {"target_entropy", "temperature_learning_rate", "alpha", "tau"},
        ),
        (
            dict(variant="virel", m_step="residual", e_step="score"),
            {"tau"},
        ),  # the target network of V is the baseline
        # The target network of the policy chooses a'.
        (dict(variant="ddpg", m_step="residual"), {"tau"}),
        (dict(variant="beta", preset="modern"), {"temperature_bound", "eval_episodes"}),
        (dict(variant="beta", preset="modern", bootstrap="v"), {"tau"}),
        (dict(variant="td3"), {"tau"}),
        (dict(variant="redq", preset="modern"), {"tau"}),
    ],
)
def test_settings_in_use_are_not(settings, busy):
    config = Config(**{"preset": "paper", **settings})
    assert unused_settings(config, {*busy, "seed", "hidden"}) == []


def test_the_rules_speak_of_settings_that_exist():
    assert {name for names, _, _ in RULES for name in names} <= {
        field.name for field in dataclasses.fields(Config)
    }


def test_the_command_line_says_so_and_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(program, "import_tensorflow_quietly", lambda: None)
    train = program.COMMANDS["train"]._replace(run=lambda config: 0)
    monkeypatch.setitem(program.COMMANDS, "train", train)
    assert program.main(["--env=Hopper-v4", "--variant=virel", "--lambda_beta=0.3"]) == 0
    told = capsys.readouterr().err
    assert told.startswith("virel-tf: --lambda_beta ") and told.count("\n") == 1
    assert program.main(["--env=Hopper-v4", "--variant=beta", "--lambda_beta=0.3"]) == 0
    assert capsys.readouterr().err == ""  # what the preset sets is not the user's
