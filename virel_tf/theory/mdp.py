"""Finite MDPs, in float64, and what is known about them exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

Values = TypeVar("Values", np.ndarray, "tf.Tensor")


class FiniteMDP(NamedTuple):
    """S states and K actions: r [S, K], p(s'|s, a) [S, K, S], gamma."""

    rewards: np.ndarray
    transitions: np.ndarray
    discount: float


def random_mdp(states: int, actions: int, discount: float, seed: int) -> FiniteMDP:
    """Normal rewards, and for each pair a random distribution over the next states."""
    random = np.random.default_rng(seed)
    transitions = random.dirichlet(np.ones(states), size=[states, actions])
    return FiniteMDP(random.normal(size=[states, actions]), transitions, discount)


def backup(mdp: FiniteMDP, values: Values) -> Values:
    """T Q = r + gamma E_{s'}[U(s')]; values U [S] -> [S, K].

    Of arrays, or of tensors, through which gradients flow.
    """
    return mdp.rewards + mdp.discount * (mdp.transitions @ values[:, None])[..., 0]


def greedy_policy(q: np.ndarray) -> np.ndarray:
    """All mass on the first best action, as pi_omega has it as epsilon goes to 0 (Theorem 1).

    [S, K] -> [S, K].
    """
    return np.eye(q.shape[1])[q.argmax(axis=1)]


def q_of_policy(mdp: FiniteMDP, policy: np.ndarray) -> np.ndarray:
    """Q^pi, by solving its Bellman equation; policy [S, K] -> [S, K]."""
    rewards = (policy * mdp.rewards).sum(axis=1)
    transitions = np.einsum("sk,skt->st", policy, mdp.transitions)
    values = np.linalg.solve(np.eye(len(rewards)) - mdp.discount * transitions, rewards)
    return backup(mdp, values)


def optimal_q(mdp: FiniteMDP) -> np.ndarray:
    """Q*, by policy iteration until the policy stands still; [S, K]."""
    q = q_of_policy(mdp, greedy_policy(mdp.rewards))
    while True:
        better = q_of_policy(mdp, greedy_policy(q))
        if np.array_equal(greedy_policy(better), greedy_policy(q)):
            return better
        q = better
