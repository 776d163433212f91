r"""Where maximum-entropy RL's best action is wrong (section 2.2, figure 1).

s_0 has two actions. a_2 pays 1 and leads on along a chain of states without a choice. a_1 pays
nothing and leads to s_1, which has k equally worthless actions, each to a state of its own. Only
a_2 is optimal; MERL is drawn to s_1 by the entropy that waits there:

    p_1* = pi_merl(a_1|s_0) = 1 / (k^-gamma exp(1/c) + 1)

The paper prints p(s_1|s_0, a_2) = 1; it is s_2 that a_2 leads to.
"""

from __future__ import annotations

import numpy as np

from virel_tf.theory.em import em_with_dependent_target
from virel_tf.theory.mdp import FiniteMDP, backup

A_1, A_2 = 0, 1


def merl_probability(
    c: np.ndarray | float, discount: np.ndarray | float, k: np.ndarray | int
) -> np.ndarray:
    """p_1*, the closed form; broadcasts."""
    return 1.0 / (
        np.power(np.asarray(k, float), -discount) * np.exp(1.0 / np.asarray(c, float)) + 1.0
    )


def merl_objective(p: complex, c: float, discount: float, k: int) -> complex:
    """J_merl (equation 2) of p_1 = p, with the best p_1^i = 1/k."""
    return (1 - p) * (1 - c * np.log(1 - p)) - p * (c * np.log(p) - discount * c * np.log(k))


def merl_probability_numerically(c: float, discount: float, k: int) -> float:
    """p_1* by maximising J_merl, knowing nothing of the closed form.

    J_merl is concave, so its slope changes sign once.

    The slope is a complex-step derivative, exact to the last digits.
    """
    low, high = -40.0, 40.0  # of the logit of p
    for _ in range(100):
        middle = 0.5 * (low + high)
        p = 1 / (1 + np.exp(-middle))
        rises = merl_objective(p * (1 + 1e-30j), c, discount, k).imag > 0
        low, high = (middle, high) if rises else (low, middle)
    return float(1 / (1 + np.exp(-middle)))


def counterexample_mdp(k: int, discount: float, tail: int = 6) -> FiniteMDP:
    """The MDP of the figure.

    It has s_0, s_1, its k successors, a_2's chain of three and a common tail that ends in itself.

    Every state has max(2, k) actions; where fewer are meant, the surplus ones do what the last one
    does.
    """
    successors = range(2, 2 + k)
    chain = range(2 + k, 5 + k)
    rest = range(5 + k, 5 + k + tail)
    states, actions = 5 + k + tail, max(2, k)
    rewards, transitions = np.zeros([states, actions]), np.zeros([states, actions, states])
    rewards[0, A_2:] = 1.0
    transitions[0, A_1, 1] = 1.0
    transitions[0, A_2:, chain[0]] = 1.0
    for action in range(actions):
        transitions[1, action, successors[min(action, k - 1)]] = 1.0
    for state in successors:
        transitions[state, :, rest[0]] = 1.0
    for state, following in zip(chain, [*chain[1:], rest[0]], strict=True):
        transitions[state, :, following] = 1.0
    for state, following in zip(rest, [*rest[1:], rest[-1]], strict=True):
        transitions[state, :, following] = 1.0
    return FiniteMDP(rewards, transitions, discount)


def merl_policy_at_start(k: int, c: float, discount: float, sweeps: int = 200) -> float:
    """p_1 of the MERL policy, by soft value iteration on the MDP.

    Each state has its own number of actions.
    """
    mdp = counterexample_mdp(k, discount)
    meant = np.ones(len(mdp.rewards), int)
    meant[0], meant[1] = 2, k
    allowed = np.arange(mdp.rewards.shape[1])[None] < meant[:, None]
    values = np.zeros(len(mdp.rewards))
    for _ in range(sweeps):
        q = np.where(allowed, backup(mdp, values), -np.inf)
        best = q.max(axis=1)
        values = best + c * np.log(np.exp((q - best[:, None]) / c).sum(axis=1))
    return float(1 / (1 + np.exp((q[0, A_2] - q[0, A_1]) / c)))


def virel_action_at_start(k: int, discount: float, turns: int = 10) -> int:
    """The action at s_0 that VIREL's EM ends with, from the uniform policy."""
    mdp = counterexample_mdp(k, discount)
    iterates = em_with_dependent_target(mdp, np.full(mdp.rewards.shape, 1 / mdp.rewards.shape[1]))
    return int([next(iterates) for _ in range(turns)][-1].policy[0].argmax() > A_1)
