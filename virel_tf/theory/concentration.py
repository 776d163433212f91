r"""Theorem 1 and Lemma 1 in numbers, in one dimension.

For p_epsilon(x) proportional to exp(f(x) / epsilon) with a unique smooth maximum x*, the proof's
substitution u = (x* - x) / sqrt(epsilon) turns p_epsilon into a Gaussian whose corrections come in
powers of sqrt(epsilon); the odd ones vanish by symmetry, so E[phi] - phi(x*) shrinks like epsilon:

    E[phi] = phi(x*) + epsilon ( phi''(x*) / (2 |f''(x*)|) + phi'(x*) f'''(x*) / (2 f''(x*)^2) ) +
    O(epsilon^2)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]


def boltzmann_expectation(
    f: Function,
    phi: Function,
    epsilon: float,
    peak: float,
    low: float,
    high: float,
    points: int = 200_001,
) -> float:
    """E_{p_epsilon}[phi] on [low, high], by quadrature in the proof's u.

    That stays resolved as epsilon -> 0.
    """
    root = np.sqrt(epsilon)
    # p_epsilon has nothing beyond, where f falls as fast as its second derivative at the peak says
    widest = 40.0
    u = np.linspace(max(-widest, (low - peak) / root), min(widest, (high - peak) / root), points)
    x = peak + root * u
    weight = np.exp((f(x) - f(np.array(peak))) / epsilon)
    return float(np.trapezoid(phi(x) * weight, u) / np.trapezoid(weight, u))


def first_order_coefficient(
    f_derivatives: tuple[float, float], phi_derivatives: tuple[float, float]
) -> float:
    """The factor of epsilon above, from f'', f''' and phi', phi'' at the maximum."""
    f2, f3 = f_derivatives
    phi1, phi2 = phi_derivatives
    return phi2 / (2 * abs(f2)) + phi1 * f3 / (2 * f2**2)


def elbo_of_gaussian(q: float, curvature: float, deviation: float, epsilon: float) -> float:
    """L (equation 4) of one state's Gaussian policy, whose mean is where Q is largest.

    Q(a) = q - curvature a^2 / 2.
    """
    expected_q = q - curvature * deviation**2 / 2
    return expected_q / epsilon + 0.5 * np.log(2 * np.pi * np.e * deviation**2)
