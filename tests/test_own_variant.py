"""A variant of the user's own, from Python, without touching the package."""

from __future__ import annotations

import json

import pytest

from virel_tf import RECIPES, Config, Recipe, fit, register
from virel_tf.errors import ConfigError
from virel_tf.evaluate.command import evaluate_run


def half_soft(q, log_prob, temperature):
    return q - 0.5 * temperature * log_prob


@pytest.fixture
def own_variant():
    register("half_soft", Recipe(critics=(half_soft, "hard"), temperature="learned", about="half-soft values"))
    yield "half_soft"
    del RECIPES["half_soft"]


def test_own_recipe_trains_resumes_and_is_evaluated(tmp_path, own_variant):
    config = dict(env="virel_tf/Echo-v0", variant=own_variant, hidden=16, batch_size=32, random_steps=100,
                  eval_every=200, replay_size=1000, run_dir=str(tmp_path / "run"))
    fit(Config(**config, total_steps=300))
    folder = fit(Config(**config, total_steps=600))
    assert json.loads((folder / "config.json").read_text())["variant"] == own_variant
    assert len((folder / "metrics.csv").read_text().splitlines()) == 1 + 3
    assert len(evaluate_run(str(folder), "best", episodes=3, seed=1)["returns"]) == 3


def test_a_taken_name_and_a_wrong_part_are_refused(own_variant):
    with pytest.raises(ConfigError, match="'half_soft' is taken"):
        register("half_soft", Recipe())
    with pytest.raises(ConfigError, match="policy='gausian' is not allowed; it must be one of gaussian, deterministic"):
        Recipe(policy="gausian")
    with pytest.raises(ConfigError, match="critics='hard'"):
        Recipe(critics="hard")


def test_a_name_nobody_registered_is_refused():
    with pytest.raises(ConfigError, match="^--variant: 'half_soft' is not allowed"):
        Config(variant="half_soft")
