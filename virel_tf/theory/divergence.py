r"""Where the direct M-step diverges and the projected one does not (appendices F.1, F.3).

States without a choice, all equally often sampled, rewards 0, so that the TD fixed point is V = 0.
Both updates are the expected ones, over all states at once:

    direct:     omega <- omega + alpha_omega E[ beta b ]
    projected:  zeta  <- zeta  + alpha_zeta E[ (beta - b^T zeta) b ]    (34)
                omega <- omega + alpha_omega ( E[ (b - gamma b') b^T zeta ] - E[ (beta - b^T zeta)
                grad^2 V zeta ] )

with b = grad V and beta = gamma V' - V. In equation (35) alpha_omega multiplies the first term
only; it belongs to both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Chain(NamedTuple):
    """Deterministic states, a value function of omega [P], and the names of what it is."""

    following: np.ndarray  # the state after each, [S]
    discount: float
    value: Callable[[np.ndarray], np.ndarray]  # omega -> V [S]
    jacobian: Callable[[np.ndarray], np.ndarray]  # omega -> grad V [S, P]
    hessian_product: Callable[
        [np.ndarray, np.ndarray], np.ndarray
    ]  # omega, x -> (grad^2 V) x [S, P]
    start: np.ndarray  # omega at first, [P]


def baird_star(discount: float = 0.9) -> Chain:
    """Baird's star (1995): seven states, each followed by the last.

    V linear in eight parameters.
    """
    features = np.zeros([7, 8])
    features[:6, :6] = 2 * np.eye(6)
    features[:6, 7] = 1.0
    features[6, 6], features[6, 7] = 1.0, 2.0
    return Chain(
        np.full(7, 6),
        discount,
        lambda w: features @ w,
        lambda w: features,
        lambda w, x: np.zeros([7, 8]),
        np.array([1.0] * 6 + [10.0, 1.0]),
    )


def two_states(discount: float = 0.9) -> Chain:
    """Two states, the second for ever.

    V = (g, 2 g) with the nonlinear g = omega + sin(omega) / 2 of one parameter.
    """
    scale = np.array([1.0, 2.0])
    return Chain(
        np.array([1, 1]),
        discount,
        lambda w: scale * (w[0] + np.sin(w[0]) / 2),
        lambda w: scale[:, None] * (1 + np.cos(w[0]) / 2),
        lambda w, x: scale[:, None] * (-np.sin(w[0]) / 2 * x[0]),
        np.array([1.0]),
    )


def td_error(chain: Chain, omega: np.ndarray) -> np.ndarray:
    """beta = gamma V(s') - V(s); [S]."""
    value = chain.value(omega)
    return chain.discount * value[chain.following] - value


def error(chain: Chain, omega: np.ndarray) -> float:
    """Root mean square of V, which is 0 at the TD fixed point."""
    return float(np.sqrt(np.mean(chain.value(omega) ** 2)))


def run_direct(chain: Chain, step: float, updates: int, stop: float = 1e12) -> list[float]:
    """The error after each direct M-step, until it exceeds `stop` or is next to nothing."""
    omega, errors = chain.start.copy(), [error(chain, chain.start)]
    for _ in range(updates):
        omega = omega + step * chain.jacobian(omega).T @ td_error(chain, omega) / len(
            chain.following
        )
        errors.append(error(chain, omega))
        if not 1e-9 * errors[0] < errors[-1] < stop:
            break
    return errors


def run_projected(
    chain: Chain, step: float, ratio: float, updates: int, stop: float = 1e12
) -> list[float]:
    """The error after each projected M-step.

    Ratio = alpha_zeta / alpha_omega, and the larger of the two is `step`.
    """
    omega, zeta, states = chain.start.copy(), np.zeros_like(chain.start), len(chain.following)
    omega_step, zeta_step = step / max(1.0, ratio), step * min(1.0, ratio)
    errors = [error(chain, omega)]
    for _ in range(updates):
        features, beta = chain.jacobian(omega), td_error(chain, omega)
        fitted = features @ zeta
        toward = (features - chain.discount * features[chain.following]).T @ fitted
        curved = chain.hessian_product(omega, zeta).T @ (beta - fitted)
        omega, zeta = (
            omega + omega_step * (toward - curved) / states,
            zeta + zeta_step * features.T @ (beta - fitted) / states,
        )
        errors.append(error(chain, omega))
        if not 1e-9 * errors[0] < errors[-1] < stop:
            break
    return errors


def updates_until(errors: list[float], share: float) -> int | None:
    """After how many updates the error stays below a share of what it was at first.

    None where it never does.
    """
    above = [i for i, value in enumerate(errors) if not value < share * errors[0]]
    return None if above[-1] == len(errors) - 1 else above[-1] + 1
