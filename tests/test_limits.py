"""Where two algorithms should be the same, they are.

Limits, and critics or temperatures that coincide.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from tiny_learner import LOC, gradients, make_learner, update

from virel_tf.objective.e_step import EStepInputs, reparametrised_loss
from virel_tf.recipe import Recipe
from virel_tf.theory.mpo import elbo, exact_e_step


def assert_same_networks(one, two) -> None:
    for mine, yours in (
        (one.q_variables, two.q_variables),
        (one.policy_variables, two.policy_variables),
    ):
        for ours, theirs in zip(mine, yours, strict=False):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


def test_sac_at_temperature_zero_is_the_hard_q_update():
    """Two hard Qs on the same Q-bar, with a policy that has a deviation, over five updates."""
    hard = Recipe(critics=("hard", "hard"), bootstrap="q", temperature="zero")
    learners = make_learner(variant="sac", alpha=0.0), make_learner(variant="sac", recipe=hard)
    for learner in learners:
        learner.policy.output_layer.bias.assign([LOC, -1.0])
    started = [variable.numpy() for variable in learners[0].policy_variables]
    for _ in range(5):
        assert update(learners[0])["q_loss"] == pytest.approx(
            update(learners[1])["q_loss"], rel=1e-6
        )
    assert_same_networks(*learners)
    assert any(
        (variable.numpy() != start).any()
        for variable, start in zip(learners[0].policy_variables, started, strict=True)
    )


def test_virel1_with_two_identical_critics_is_virel():
    one, two = make_learner(variant="virel"), make_learner(variant="virel1")
    for _ in range(5):
        metrics = update(one), update(two)
    for name in ("q_loss", "v_loss", "policy_loss", "q", "v"):
        assert metrics[0][name] == pytest.approx(metrics[1][name], rel=1e-5)
    assert_same_networks(one, two)  # those of the second critic left over


def test_ddpg_is_the_limit_of_the_reparametrised_e_step():
    """The gradient of the policy's mean, as deviation and temperature go to 0 together."""

    def to_loc(learner) -> float:
        update(learner)
        return float(gradients(learner.policy_optimiser)[3][0])

    def error(small: float) -> float:
        learner = make_learner(variant="virel", alpha=small, policy_regulariser=0.0)
        learner.policy.output_layer.bias.assign([LOC, math.log(small)])
        return abs(to_loc(learner) - limit)

    limit = to_loc(make_learner(variant="ddpg", policy_regulariser=0.0))
    assert limit == pytest.approx(-0.75, rel=1e-5)  # -dQ/da (1 - tanh^2)
    errors = [error(small) for small in (1e-2, 1e-4, 1e-6)]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-5


def test_the_exact_e_step_of_mpo_is_prior_times_exp_q_over_epsilon():
    actions = np.linspace(-1, 1, 41)
    q, prior = 2 * actions - actions**2, np.exp(-(actions**2) / 0.18)
    prior /= prior.sum()
    expected = prior * np.exp(q / 0.3)
    log_posterior = exact_e_step(tf.constant([q]), tf.constant([np.log(prior)]), 0.3)[0]
    np.testing.assert_allclose(np.exp(log_posterior), expected / expected.sum(), rtol=1e-10)
    # The loss that the variant descends is there the same for every action, -epsilon log Z: nothing
    # left to gain.
    losses = [
        float(
            reparametrised_loss(
                EStepInputs(
                    tf.constant([value]),
                    log_posterior[i : i + 1],
                    tf.constant([np.log(prior[i])]),
                    tf.zeros([1], tf.float64),
                    tf.constant(0.3, tf.float64),
                )
            )
        )
        for i, value in enumerate(q)
    ]
    np.testing.assert_allclose(losses, np.full(41, -0.3 * np.log(expected.sum())), rtol=1e-10)


def test_the_exact_e_step_maximises_the_elbo_of_mpo():
    random = np.random.default_rng(0)
    q, log_prior = (
        tf.constant(random.normal(size=[2, 7])),
        tf.nn.log_softmax(tf.constant(random.normal(size=[2, 7]))),
    )
    exact = exact_e_step(q, log_prior, 0.7)
    logits = tf.Variable(exact)
    with tf.GradientTape() as tape:
        best = elbo(tf.nn.log_softmax(logits), q, log_prior, 0.7)
    np.testing.assert_allclose(tape.gradient(best, logits), np.zeros([2, 7]), atol=1e-12)
    for _ in range(50):
        assert (
            elbo(tf.nn.log_softmax(tf.constant(random.normal(size=[2, 7]))), q, log_prior, 0.7)
            < best
        )
    # epsilon L is the log normaliser there.
    normaliser = tf.reduce_mean(0.7 * tf.reduce_logsumexp(log_prior + q / 0.7, axis=-1))
    assert float(best) == pytest.approx(float(normaliser), rel=1e-9)
