r"""Complete E- and M-steps on a finite MDP (appendix F.5).

Q is a table, so any Q can be represented, and the target uses pi_theta in place of pi_omega. A
complete M-step then ends at epsilon = 0, and the complete E-step that follows, at temperature
epsilon = 0, is the greedy policy (Theorem 1).

| target in the M-step | M-step | EM is |
|---|---|---|
| depends on omega: min over Q of norm(T^pi Q - Q) | Q = Q^pi | policy iteration (equations 39, 40) |
| fixed: min over Q of norm(T^pi Q_old - Q) | Q = T^pi Q_old | Q-learning, Q = T* Q_old (equation 41) |

The M-steps here minimise the residual error for what it is, a linear least-squares problem with a
zero; they do not know of the algorithms in the last column, which tests compare them with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from virel_tf.theory.mdp import FiniteMDP, greedy_policy


class Iterate(NamedTuple):
    """One turn of EM.

    The critic of the M-step, its residual error, and the policy of the E-step after it.
    """

    q: np.ndarray  # [S, K]
    epsilon: float
    policy: np.ndarray  # [S, K]


def em_with_dependent_target(mdp: FiniteMDP, policy: np.ndarray) -> Iterator[Iterate]:
    """EM whose residual error is that of T^pi Q - Q, for ever, from a policy [S, K]."""
    while True:
        matrix, offset = bellman_residual(mdp, policy)
        q = np.linalg.solve(matrix, -offset).reshape(policy.shape)
        yield Iterate(q, half_mean_square(matrix @ q.ravel() + offset), policy := greedy_policy(q))


def em_with_fixed_target(mdp: FiniteMDP, q: np.ndarray) -> Iterator[Iterate]:
    """EM whose residual error is that of T^pi Q_old - Q, for ever, from a critic [S, K]."""
    while True:
        matrix, offset = bellman_residual(mdp, greedy_policy(q))
        target = matrix @ q.ravel() + offset + q.ravel()  # T^pi Q_old
        q = target.reshape(q.shape)  # the minimum of norm(target - Q) over tables Q
        yield Iterate(q, half_mean_square(target - q.ravel()), greedy_policy(q))


def bellman_residual(mdp: FiniteMDP, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(A, b) with T^pi Q - Q = A Q + b over the pairs in a row; [S K, S K] and [S K]."""
    states, actions = policy.shape
    next_pair = np.einsum("skt,tj->sktj", mdp.transitions, policy).reshape(
        states * actions, states * actions
    )
    return mdp.discount * next_pair - np.eye(states * actions), mdp.rewards.ravel()


def half_mean_square(residual: np.ndarray) -> float:
    """epsilon = 1/2 E_h[(T Q - Q)^2]."""
    return 0.5 * float(np.mean(residual**2))
