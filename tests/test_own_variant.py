"""A variant of the user's own, from Python, without touching the package."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest
from tiny_learner import gradients, make_learner, update

from virel_tf import RECIPES, Config, Recipe, fit, register
from virel_tf.errors import ConfigError
from virel_tf.evaluate.command import evaluate_run
from virel_tf.evaluate.rollout import evaluate_policy
from virel_tf.objective.e_step import EStep, score_function_loss


def half_soft(q, log_prob, temperature):
    return q - 0.5 * temperature * log_prob


@pytest.fixture
def own_variant():
    register(
        "half_soft",
        Recipe(critics=(half_soft, "hard"), temperature="learned", about="half-soft values"),
    )
    yield "half_soft"
    del RECIPES["half_soft"]


def test_own_recipe_trains_resumes_and_is_evaluated(tmp_path, own_variant):
    config = dict(
        env="virel_tf/Echo-v0",
        variant=own_variant,
        hidden=16,
        batch_size=32,
        random_steps=100,
        eval_every=200,
        replay_size=1000,
        run_dir=str(tmp_path / "run"),
    )
    fit(Config(**config, total_steps=300))
    folder = fit(Config(**config, total_steps=600))
    assert json.loads((folder / "config.json").read_text())["variant"] == own_variant
    assert len((folder / "metrics.csv").read_text().splitlines()) == 1 + 3
    assert len(evaluate_run(str(folder), "best", episodes=3, seed=1)["returns"]) == 3


@pytest.mark.parametrize(
    "number, raised", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_stop_saves_and_reaches_who_called(tmp_path, monkeypatch, number, raised):
    def interrupted(*arguments, **settings):
        os.kill(os.getpid(), number)
        return evaluate_policy(*arguments, **settings)

    monkeypatch.setattr("virel_tf.train.loop.evaluate_policy", interrupted)
    with pytest.raises(raised):
        fit(
            Config(
                env="virel_tf/Echo-v0",
                hidden=16,
                batch_size=32,
                random_steps=100,
                eval_every=200,
                replay_size=1000,
                total_steps=600,
                run_dir=str(tmp_path),
            )
        )
    assert [path.name for path in (tmp_path / "checkpoints").glob("step-*")] == ["step-000000200"]


def test_a_run_is_not_continued_with_other_parts_under_its_name(tmp_path, own_variant):
    config = dict(
        env="virel_tf/Echo-v0",
        variant=own_variant,
        hidden=16,
        batch_size=32,
        random_steps=100,
        replay_size=1000,
        run_dir=str(tmp_path),
    )
    fit(Config(**config, total_steps=200))
    register(own_variant, Recipe(critics=(half_soft, "hard"), e_step="score"))
    with pytest.raises(
        ConfigError, match="e_step: reparametrised -> score; temperature: learned -> constant"
    ):
        fit(Config(**config, total_steps=400))


def test_own_e_step_may_hold_the_action_and_have_a_baseline():
    own = Recipe(e_step=EStep(score_function_loss, holds_action=True, has_baseline=True))
    learners = [
        make_learner(variant="virel", e_step="score"),
        make_learner(variant="virel", recipe=own),
    ]
    for learner in learners:
        learner.policy.output_layer.bias.assign([0.5, -1.0])
        update(learner)
    ours, theirs = (gradients(learner.policy_optimiser) for learner in learners)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_shipped_name_and_a_wrong_part_are_refused():
    with pytest.raises(ConfigError, match="'virel' is not allowed; it ships"):
        register("virel", Recipe(critics=("soft",)))
    with pytest.raises(
        ConfigError,
        match="e_step='reparametrized' is not allowed; it must be one of reparametrised",
    ):
        Recipe(e_step="reparametrized")
    with pytest.raises(
        ConfigError,
        match="policy='gausian' is not allowed; it must be one of gaussian, deterministic",
    ):
        Recipe(policy="gausian")
    with pytest.raises(ConfigError, match="critics='hard'"):
        Recipe(critics="hard")


def test_a_name_nobody_registered_is_refused():
    with pytest.raises(ConfigError, match="^variant: 'half_soft' is not allowed"):
        Config(variant="half_soft")
