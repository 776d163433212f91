"""The averaged policy: the mean of folded weights, worked out by hand, and who sees it."""

from __future__ import annotations

import numpy as np
import pytest
from small_networks import NETWORKS, inputs_of, make_learner, shaken, update

from virel_tf.algorithms.averaged_policy import AveragedPolicy
from virel_tf.networks.policies import Policy
from virel_tf.run_folder.policies import (
    SavedWeights,
    names_in_checkpoint,
    read_policy,
    save_policy,
)


def weights(policy: Policy) -> list[np.ndarray]:
    """Kernels and biases, with batch normalisation folded in."""
    return [part.numpy() for pair in policy.folded() for part in pair]


@pytest.mark.parametrize("normalisation", ["none", "batch"])
@pytest.mark.parametrize("name", ["gaussian", "deterministic"])
def test_the_mean_of_one_policy_is_that_policy(name, normalisation):
    policy = shaken(NETWORKS[name](normalisation))
    averaged = AveragedPolicy(NETWORKS[name](normalisation), decay=0.9)
    averaged.follow(policy)
    observation = inputs_of(name)[0]
    np.testing.assert_allclose(
        averaged.mean.mean_action(observation), policy.mean_action(observation), atol=1e-5
    )


def test_the_mean_is_exponential_and_exact_from_the_start():
    policies = [shaken(NETWORKS["gaussian"]("batch"), seed) for seed in range(3)]
    averaged = AveragedPolicy(NETWORKS["gaussian"]("batch"), decay=0.5)
    for policy in policies:
        averaged.follow(policy)
    for got, first, second, third in zip(
        weights(averaged.mean), *map(weights, policies), strict=True
    ):
        np.testing.assert_allclose(
            got, (0.25 * first + 0.5 * second + third) / 1.75, rtol=1e-3, atol=1e-4
        )


def test_learning_is_the_same_with_and_without_it():
    with_mean, without = (
        make_learner(variant="virel", policy_averaging=4),
        make_learner(variant="virel"),
    )
    assert without.evaluated_policy is without.policy
    assert with_mean.evaluated_policy is with_mean.averaged_policy.mean
    seen = []
    for done in range(4):
        assert update(with_mean, done) == update(without, done)
        with_mean.average_policy()
        seen.append(weights(with_mean.policy))
    total = 1 + 0.75 + 0.75**2 + 0.75**3  # steps_per_iteration is 1, hence a decay of 1 - 1/4
    for got, *each in zip(weights(with_mean.evaluated_policy), *seen, strict=True):
        mean = sum(0.75 ** (3 - i) * value for i, value in enumerate(each)) / total
        np.testing.assert_allclose(got, mean, rtol=1e-3, atol=1e-4)


def test_the_averaged_policy_is_what_is_saved(tmp_path):
    learner = make_learner(variant="virel", policy_averaging=4)
    for done in range(4):
        update(learner, done)
        learner.average_policy()
    observation = inputs_of("gaussian")[0]
    save_policy(tmp_path / "last.npz", learner.evaluated_policy, 4, learner.critics.online)
    state = learner.state()
    names = names_in_checkpoint(
        learner.evaluated_policy, learner.critics.online, learner.reward_divisor, state
    )
    arrays = {name: variable.numpy() for name, variable in state.items()}
    for saved in (
        read_policy(tmp_path / "last.npz"),
        SavedWeights.of_checkpoint(tmp_path, 4, arrays, names),
    ):
        policy = NETWORKS["gaussian"]("batch")
        saved.restore(policy)
        action = policy.mean_action(observation)
        np.testing.assert_array_equal(action, learner.evaluated_policy.mean_action(observation))
        assert np.abs(action - learner.policy.mean_action(observation)).max() > 1e-4
        assert all(saved.holds(critic) for critic in learner.critics.online)
