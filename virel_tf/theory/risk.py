r"""Mode seeking against risk seeking (section 2.3).

There are two actions, one of them with a large loss now and then:

    safe:   return 1
    risky:  return 1.5 with probability 0.9, else -loss

Pseudo-likelihood methods fit the policy to a target over outcomes, p_O(a, outcome) proportional to
prior(a) p(outcome|a) exp(R / eta), by KL(p_O || p_pi). The best fit is pi(a) proportional to
prior(a) E[exp(R / eta)|a]: however bad the loss, exp(-loss / eta) only goes to 0. VIREL's Boltzmann
policy has the expectation inside, pi(a) proportional to exp(E[R|a] / epsilon), and so sees all of
the loss.
"""

from __future__ import annotations

import numpy as np

SAFE, RISKY = 0, 1
GAIN, PROBABILITY = 1.5, 0.9


def outcomes(loss: float) -> tuple[np.ndarray, np.ndarray]:
    """(returns, probabilities), each [2, 2]: for both actions, the two things that may happen."""
    return np.array([[1.0, 1.0], [GAIN, -loss]]), np.array(
        [[0.5, 0.5], [PROBABILITY, 1 - PROBABILITY]]
    )


def expected_returns(loss: float) -> np.ndarray:
    """E[R|a], [2]."""
    returns, probabilities = outcomes(loss)
    return (returns * probabilities).sum(axis=1)


def pseudo_likelihood_policy(loss: float, eta: float) -> np.ndarray:
    """argmin over pi of KL(p_O || p_pi), for a uniform prior; [2]."""
    returns, probabilities = outcomes(loss)
    weight = (probabilities * np.exp((returns - GAIN) / eta)).sum(axis=1)
    return weight / weight.sum()


def virel_policy(loss: float, epsilon: float) -> np.ndarray:
    """argmin over pi of KL(pi || pi_omega), with Q = E[R|a]; [2]."""
    q = expected_returns(loss)
    weight = np.exp((q - q.max()) / epsilon)
    return weight / weight.sum()


def reverse_kl(policy: np.ndarray, loss: float, eta: float) -> float:
    """KL(p_O || p_pi) over (action, outcome), what pseudo-likelihood minimises."""
    returns, probabilities = outcomes(loss)
    target = probabilities * np.exp((returns - GAIN) / eta)
    target /= target.sum()
    model = policy[:, None] * probabilities
    return float((target * np.log(target / model)).sum())
