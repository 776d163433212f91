"""Exact EM and the paper's identities on finite problems.

Also the counterexample to maximum-entropy RL.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from virel_tf.objective import boltzmann as b
from virel_tf.theory import counterexample as ce
from virel_tf.theory.elbo import elbo, entropy, joint_kl, log_likelihood, scaled_elbo
from virel_tf.theory.em import em_with_dependent_target, em_with_fixed_target
from virel_tf.theory.mdp import backup, greedy_policy, optimal_q, q_of_policy, random_mdp

MDPS = [
    random_mdp(2 + seed % 7, 2 + seed % 4, 0.5 + 0.49 * (seed % 10) / 10, seed)
    for seed in range(100)
]


def test_em_with_the_dependent_target_is_policy_iteration():
    for mdp in MDPS:
        policy = np.full(mdp.rewards.shape, 1 / mdp.rewards.shape[1])
        for iterate in itertools.islice(em_with_dependent_target(mdp, policy), 6):
            q = q_of_policy(mdp, policy)  # policy evaluation by the state values' linear system
            policy = greedy_policy(q)
            np.testing.assert_allclose(iterate.q, q, atol=1e-12, rtol=1e-12)
            np.testing.assert_array_equal(iterate.policy, policy)
            assert iterate.epsilon < 1e-24


def test_em_with_the_fixed_target_is_q_learning():
    for mdp in MDPS:
        q = np.random.default_rng(1).normal(size=mdp.rewards.shape)
        for iterate in itertools.islice(em_with_fixed_target(mdp, q), 30):
            q = backup(mdp, q.max(axis=1))
            np.testing.assert_allclose(iterate.q, q, atol=1e-12, rtol=1e-12)


def test_both_end_at_the_optimum():
    for mdp in MDPS[::10]:
        best = optimal_q(mdp)
        np.testing.assert_allclose(best, backup(mdp, best.max(axis=1)), atol=1e-12)
        dependent = next(
            itertools.islice(em_with_dependent_target(mdp, greedy_policy(-mdp.rewards)), 15, None)
        )
        fixed = next(
            itertools.islice(em_with_fixed_target(mdp, np.zeros(mdp.rewards.shape)), 2500, None)
        )
        np.testing.assert_allclose(dependent.q, best, atol=1e-10)
        np.testing.assert_allclose(fixed.q, best, atol=1e-8)


@pytest.mark.parametrize("c", [0.05, 0.2, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("discount", [0.1, 0.5, 0.9, 0.99])
def test_merl_probability_closed_form_objective_and_mdp_agree(c, discount):
    for k in (1, 2, 5, 20):
        closed = float(ce.merl_probability(c, discount, k))
        assert ce.merl_probability_numerically(c, discount, k) == pytest.approx(
            closed, abs=1e-8, rel=1e-8
        )
        assert ce.merl_policy_at_start(k, c, discount) == pytest.approx(closed, abs=1e-8)


def test_merl_is_wrong_where_the_paper_says_and_virel_is_not():
    # k^-gamma exp(1/c) < 1: with c = 1, gamma = 0.9 that is k > e^(1/0.9) = 3.04.
    assert ce.merl_probability(1.0, 0.9, 3) < 0.5 < ce.merl_probability(1.0, 0.9, 4)
    for k in (1, 3, 4, 10):
        assert ce.virel_action_at_start(k, 0.9) == ce.A_2


def test_the_counterexample_is_an_mdp():
    mdp = ce.counterexample_mdp(4, 0.9)
    np.testing.assert_allclose(mdp.transitions.sum(axis=2), 1.0)
    assert optimal_q(mdp)[0, ce.A_2] == pytest.approx(1.0) and optimal_q(mdp)[
        0, ce.A_1
    ] == pytest.approx(0.0)


@given(st.integers(0, 10_000), st.floats(0.05, 20))
@settings(max_examples=25, deadline=None)
def test_the_elbo_splits_into_likelihood_divergence_and_entropy(seed, temperature):
    random = np.random.default_rng(seed)
    q = tf.constant(random.normal(size=[4, 3]))
    log_policy = tf.nn.log_softmax(tf.constant(random.normal(size=[4, 3])))
    states = tf.constant(random.dirichlet(np.ones(4)))
    whole = float(elbo(q, log_policy, states, temperature))
    split = (
        log_likelihood(q, temperature)
        - joint_kl(q, log_policy, states, temperature)
        - entropy(tf.math.log(states))
    )
    assert whole == pytest.approx(float(split), rel=1e-9, abs=1e-9)
    assert float(scaled_elbo(q, log_policy, states, temperature)) == pytest.approx(
        temperature * whole, rel=1e-9
    )


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_the_boltzmann_policy_maximises_the_elbo(seed):
    """Theorem 3: among policies over the same actions none has a larger ELBO.

    The gap is the expected KL.
    """
    random = np.random.default_rng(seed)
    q, states = tf.constant(random.normal(size=[4, 3])), tf.constant(random.dirichlet(np.ones(4)))
    best = b.log_boltzmann(q, 0.7)
    other = tf.nn.log_softmax(tf.constant(random.normal(size=[4, 3])))
    gap = elbo(q, best, states, 0.7) - elbo(q, other, states, 0.7)
    assert float(gap) == pytest.approx(
        float(tf.reduce_sum(states * b.kl_divergence(other, best))), rel=1e-9
    )
    assert float(gap) > 0


def test_likelihood_of_optimality_by_hand():
    likelihood = b.optimality_likelihood(tf.constant([1.0, 3.0]), 2.0)
    np.testing.assert_allclose(likelihood, [np.exp(-1.0), 1.0], rtol=1e-6)
    np.testing.assert_allclose(greedy_policy(np.array([[1.0, 3.0]])), [[0.0, 1.0]])


def test_importance_sampling_agrees_with_quadrature():
    """Q(a) = sin(3 a) on [-1, 1] with a uniform proposal, temperature 0.5."""
    grid = np.linspace(-1, 1, 20_001)
    weights = np.exp(np.sin(3 * grid) / 0.5)
    log_partition = np.log(np.trapezoid(weights, grid))
    actions = tf.random.stateless_uniform([400_000], [1, 2], -1.0, 1.0, tf.float64)
    q, log_proposal = tf.sin(3 * actions), tf.fill([400_000], tf.constant(-np.log(2.0)))
    assert float(b.importance_log_partition(q, log_proposal, 0.5)) == pytest.approx(
        log_partition, abs=0.01
    )
    mean = float(tf.reduce_sum(b.importance_weights(q, log_proposal, 0.5) * actions))
    assert mean == pytest.approx(
        np.trapezoid(weights * grid, grid) / np.exp(log_partition), abs=0.01
    )
    # KL(uniform || Boltzmann) = -log 2 - E[Q]/epsilon + log partition; E[sin 3a] = 0.
    assert float(b.importance_kl(q, log_proposal, 0.5)) == pytest.approx(
        -np.log(2.0) + log_partition, abs=0.02
    )
