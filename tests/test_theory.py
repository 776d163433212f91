"""Theorem 1, Lemma 1, risk, divergence, and the page that shows them."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from trained_runs import virel

from virel_tf.theory import concentration as co
from virel_tf.theory import divergence as di
from virel_tf.theory import risk


def test_boltzmann_expectation_of_a_gaussian_by_hand():
    """f = -x^2: p_epsilon is N(0, epsilon/2), so E[x^2] = epsilon/2 exactly."""
    value = co.boltzmann_expectation(lambda x: -(x**2), lambda x: x**2, 1e-4, 0.0, -1.0, 1.0)
    assert value == pytest.approx(0.5e-4, rel=1e-8)
    assert co.first_order_coefficient((-2.0, 0.0), (0.0, 2.0)) == 0.5


def test_expectations_approach_the_maximum_at_the_rate_epsilon():
    coefficient = co.first_order_coefficient((-2.0, -3.0), (math.e, math.e))
    ratios = [
        (
            co.boltzmann_expectation(
                lambda x: -((x - 1) ** 2) - (x - 1) ** 3 / 2, np.exp, epsilon, 1.0, 0.0, 2.0
            )
            - math.e
        )
        / epsilon
        for epsilon in (1e-3, 1e-4, 1e-5)
    ]
    errors = np.abs(np.array(ratios) - coefficient)
    # what is left is of order epsilon
    assert errors[2] < 1e-3 and errors[0] / errors[1] == pytest.approx(10, rel=0.1)


def test_elbo_of_a_narrowing_policy_falls_without_bound():
    """Each tenth of the deviation costs log 10, whatever epsilon (Lemma 1, i)."""
    values = [co.elbo_of_gaussian(1.0, 1.0, deviation, 0.5) for deviation in (1e-6, 1e-7)]
    assert values[0] - values[1] == pytest.approx(math.log(10), rel=1e-6)


def test_elbo_grows_as_one_over_epsilon():
    """Lemma 1, ii: epsilon L -> E[Q] > 0."""
    assert 1e-9 * co.elbo_of_gaussian(1.0, 1.0, 0.3, 1e-9) == pytest.approx(
        1 - 0.3**2 / 2, rel=1e-6
    )


def test_pseudo_likelihood_takes_the_risk_and_virel_does_not():
    # E[exp R]: e for safe, 0.9 e^1.5 + 0.1 e^-20 for risky.
    risky = 0.9 * math.exp(1.5) + 0.1 * math.exp(-20)
    assert risk.pseudo_likelihood_policy(20.0, 1.0)[risk.RISKY] == pytest.approx(
        risky / (risky + math.e), rel=1e-9
    )
    assert risk.virel_policy(20.0, 1.0)[risk.RISKY] == pytest.approx(
        1 / (1 + math.exp(1.65)), rel=1e-9
    )
    for eta in (0.3, 1.0, 3.0):
        assert risk.pseudo_likelihood_policy(20.0, eta).argmax() == risk.RISKY
        assert risk.virel_policy(20.0, eta).argmax() == risk.SAFE


def test_the_pseudo_likelihood_policy_is_the_best_fit():
    best = risk.pseudo_likelihood_policy(5.0, 0.8)
    for p in np.linspace(0.01, 0.99, 50):
        assert (
            risk.reverse_kl(np.array([p, 1 - p]), 5.0, 0.8)
            >= risk.reverse_kl(best, 5.0, 0.8) - 1e-12
        )


@pytest.mark.parametrize("chain", [di.baird_star(), di.two_states()], ids=["star", "two states"])
def test_direct_diverges_and_projected_converges(chain):
    assert di.run_direct(chain, 0.2, 10_000)[-1] > 1e9
    errors = di.run_projected(chain, 0.2, 1.0, 10_000)
    assert errors[-1] < 0.01 * errors[0] and di.updates_until(errors, 0.01) is not None


def test_a_direct_step_of_the_two_states_by_hand():
    """dg = (6 gamma - 5) / 2 g g' alpha, with g = omega + sin(omega) / 2."""
    chain, omega = di.two_states(0.9), 1.0
    g, slope = omega + math.sin(omega) / 2, 1 + math.cos(omega) / 2
    moved = omega + 0.1 * 0.5 * (6 * 0.9 - 5) * g * slope
    expected = math.sqrt((1 + 4) / 2) * (moved + math.sin(moved) / 2)
    assert di.run_direct(chain, 0.1, 1)[1] == pytest.approx(expected, rel=1e-12)


def test_the_derivatives_of_the_nonlinear_chain():
    chain, omega, x = di.two_states(), np.array([0.7]), np.array([2.0])
    step = np.array([1e-6])
    jacobian = (chain.value(omega + step) - chain.value(omega - step)) / 2e-6
    np.testing.assert_allclose(chain.jacobian(omega)[:, 0], jacobian, rtol=1e-8)
    product = (chain.jacobian(omega + step) - chain.jacobian(omega - step)) / 2e-6 * x
    np.testing.assert_allclose(chain.hessian_product(omega, x), product, rtol=1e-8)


def test_the_command_writes_one_page_with_everything_in_it(tmp_path):
    done = virel("theory", f"--out={tmp_path}")
    page = (tmp_path / "theory.html").read_text()
    assert str(tmp_path / "theory.html") in done.stdout
    assert len(re.findall("<img ", page)) == len(list(tmp_path.glob("*.png"))) == 5
    assert "src='http" not in page and "diverges" in page and "a_1 (wrong)" in page
