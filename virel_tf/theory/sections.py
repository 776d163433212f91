"""What the page shows: sections that each compute something exactly.

Each puts it into a table and a figure.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from virel_tf.theory import concentration, counterexample, divergence, risk
from virel_tf.theory.em import em_with_dependent_target, em_with_fixed_target
from virel_tf.theory.mdp import backup, greedy_policy, optimal_q, q_of_policy, random_mdp


class Section(NamedTuple):
    """One part of the page."""

    title: str
    text: str
    header: list[str]
    rows: list[list[str]]
    figure: Figure


def exact_em() -> Section:
    """EM on random MDPs beside policy iteration and Q-learning (appendix F.5)."""
    figure, rows = Figure(figsize=(6, 3.4), layout="constrained"), []
    axes = figure.subplots()
    for name, colour in (("policy iteration", "#4c72b0"), ("Q-learning", "#c44e52")):
        worst, curves = 0.0, []
        for seed in range(100):
            mdp = random_mdp(2 + seed % 7, 2 + seed % 4, 0.9, seed)
            best, errors = optimal_q(mdp), []
            policy, q = (
                np.full(mdp.rewards.shape, 1 / mdp.rewards.shape[1]),
                np.zeros(mdp.rewards.shape),
            )
            dependent = name == "policy iteration"
            em = (
                em_with_dependent_target(mdp, policy) if dependent else em_with_fixed_target(mdp, q)
            )
            for iterate in itertools.islice(em, 40):
                q = q_of_policy(mdp, policy) if dependent else backup(mdp, q.max(axis=1))
                policy = greedy_policy(q)
                worst = max(worst, float(np.abs(iterate.q - q).max()))
                errors.append(max(float(np.abs(iterate.q - best).max()), 1e-16))
            curves.append(errors)
        axes.semilogy(
            np.arange(1, 41), np.median(curves, axis=0), color=colour, label=f"EM as {name}"
        )
        rows.append([name, "100", f"{worst:.1e}"])
    axes.set(xlabel="EM turns", ylabel="|Q - Q*|, median over MDPs")
    axes.legend(frameon=False)
    return Section(
        "Complete E- and M-steps",
        "With a target that depends on omega, EM is policy iteration; with a fixed "
        "target it is Q-learning. Iterate by iterate, on 100 random MDPs:",
        ["algorithm", "MDPs", "largest difference to EM"],
        rows,
        figure,
    )


def merl_counterexample() -> Section:
    """p_1* over temperatures and branchings (section 2.2)."""
    temperatures, branches = np.logspace(-1, 1, 120), np.unique(np.logspace(0, 3, 60).astype(int))
    p = counterexample.merl_probability(temperatures[None], 0.9, branches[:, None])
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    mesh = axes.pcolormesh(
        temperatures, branches, p, cmap="RdBu_r", vmin=0, vmax=1, shading="nearest"
    )
    axes.contour(temperatures, branches, p, [0.5], colors="black")
    axes.set(
        xscale="log", yscale="log", xlabel="temperature c", ylabel="k, worthless actions after a_1"
    )
    figure.colorbar(mesh, label="MERL's probability of the wrong action")
    rows = []
    for c, k in ((0.2, 10), (1.0, 3), (1.0, 4), (1.0, 100), (3.0, 2)):
        closed = float(counterexample.merl_probability(c, 0.9, k))
        numeric = counterexample.merl_probability_numerically(c, 0.9, k)
        right = (
            "a_2"
            if counterexample.virel_action_at_start(min(k, 12), 0.9) == counterexample.A_2
            else "a_1"
        )
        rows.append(
            [
                f"{c:g}",
                str(k),
                f"{closed:.6f}",
                f"{abs(closed - numeric):.1e}",
                "a_1 (wrong)" if closed > 0.5 else "a_2",
                right,
            ]
        )
    return Section(
        "Where maximum entropy misleads",
        "Only a_2 pays. Right of the black line the mode of the optimal MERL "
        "policy is a_1 all the same (discount 0.9); VIREL's EM ends with a_2 everywhere.",
        ["c", "k", "p_1*", "closed form - numerical", "MERL's mode", "VIREL's action"],
        rows,
        figure,
    )


def boltzmann_concentrates() -> Section:
    """E[phi] -> phi(x*) at the rate epsilon (Theorem 1), and the two limits of the ELBO (Lemma 1)."""
    peak = 0.5  # of f(x) = -(x - 1/2)^2 - (x - 1/2)^3 / 2: f'' = -2, f''' = -3
    limit = np.exp(peak)
    coefficient = concentration.first_order_coefficient((-2.0, -3.0), (limit, limit))
    temperatures = np.logspace(-5, -1, 9)
    errors = [
        concentration.boltzmann_expectation(
            lambda x: -((x - peak) ** 2) - (x - peak) ** 3 / 2, np.exp, epsilon, peak, -1.0, 1.5
        )
        - limit
        for epsilon in temperatures
    ]
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.loglog(temperatures, np.abs(errors), "o", color="#4c72b0", label="|E[phi] - phi(x*)|")
    left.loglog(
        temperatures, abs(coefficient) * temperatures, color="gray", label="first-order term"
    )
    left.set(xlabel="epsilon", title="Theorem 1, phi = exp")
    left.legend(frameon=False)
    deviations = np.logspace(-6, 0, 50)
    for epsilon, colour in ((1.0, "#4c72b0"), (0.1, "#55a868"), (0.01, "#c44e52")):
        right.semilogx(
            deviations,
            [concentration.elbo_of_gaussian(1.0, 1.0, d, epsilon) for d in deviations],
            color=colour,
            label=f"epsilon = {epsilon:g}",
        )
    right.set(
        xlabel="deviation of the policy",
        title=(
            "Lemma 1: the ELBO falls as the policy narrows,\n"
            "and grows without bound as epsilon vanishes"
        ),
        yscale="symlog",
    )
    right.legend(frameon=False)
    rows = [
        [f"{epsilon:.0e}", f"{error:.6e}", f"{error / epsilon:.6f}", f"{coefficient:.6f}"]
        for epsilon, error in zip(temperatures, errors, strict=True)
    ]
    return Section(
        "The Boltzmann policy becomes greedy",
        "The error of an expectation shrinks in proportion to epsilon, "
        "with the factor that the proof's expansion gives.",
        ["epsilon", "E[phi] - phi(x*)", "divided by epsilon", "first-order factor"],
        rows,
        figure,
    )


def risk_seeking() -> Section:
    """Pseudo-likelihood against VIREL where a large loss is rare (section 2.3)."""
    losses = np.linspace(0, 30, 121)
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for label, policy, colour in (
        ("pseudo-likelihood", risk.pseudo_likelihood_policy, "#c44e52"),
        ("VIREL", risk.virel_policy, "#4c72b0"),
    ):
        axes.plot(
            losses, [policy(loss, 1.0)[risk.RISKY] for loss in losses], color=colour, label=label
        )
    axes.axvline(
        (risk.GAIN * risk.PROBABILITY - 1) / (1 - risk.PROBABILITY),
        color="gray",
        linestyle=":",
        label="from here on safe is better",
    )
    axes.set(
        xlabel="loss, with probability 0.1", ylabel="probability of the risky action", ylim=(0, 1)
    )
    axes.legend(frameon=False)
    rows = [
        [
            f"{loss:g}",
            f"{risk.expected_returns(loss)[risk.RISKY]:.2f}",
            f"{risk.pseudo_likelihood_policy(loss, 1.0)[risk.RISKY]:.4f}",
            f"{risk.virel_policy(loss, 1.0)[risk.RISKY]:.4f}",
        ]
        for loss in (1.0, 5.0, 20.0, 100.0)
    ]
    return Section(
        "Mode seeking against risk seeking",
        "Safe returns 1. Risky returns 1.5, but now and then there is a loss. Fitting outcomes by"
        " KL(p_O || p_pi) hardly sees the loss; VIREL sees its expectation. Both at temperature 1.",
        ["loss", "E[return] of risky", "pseudo-likelihood: P(risky)", "VIREL: P(risky)"],
        rows,
        figure,
    )


def projected_m_steps() -> Section:
    """Baird's star and a nonlinear pair of states: direct against projected M-steps."""
    figure, rows = Figure(figsize=(9, 3.4), layout="constrained"), []
    chains = (
        ("Baird's star", divergence.baird_star()),
        ("two states, nonlinear", divergence.two_states()),
    )
    for axes, (name, chain) in zip(figure.subplots(1, 2), chains, strict=True):
        direct = divergence.run_direct(chain, 0.2, 10_000)
        axes.loglog(np.arange(1, len(direct) + 1), direct, color="black", label="direct")
        rows.append([name, "direct", "", "diverges" if direct[-1] > 1e9 else f"{direct[-1]:.1e}"])
        for ratio, colour in (
            (0.01, "#4c72b0"),
            (0.1, "#64b5cd"),
            (1.0, "#55a868"),
            (10.0, "#dd8452"),
        ):
            errors = divergence.run_projected(chain, 0.2, ratio, 10_000)
            axes.loglog(
                np.arange(1, len(errors) + 1),
                errors,
                color=colour,
                label=f"projected, ratio {ratio:g}",
            )
            reached = divergence.updates_until(errors, 0.1)
            rows.append(
                [
                    name,
                    "projected",
                    f"{ratio:g}",
                    (
                        f"a tenth after {reached} updates"
                        if reached
                        else f"{errors[-1] / errors[0]:.2f} of the start after 10000 updates"
                    ),
                ]
            )
        axes.set(title=name, xlabel="updates", ylabel="error of V", ylim=(1e-6, 1e6))
        axes.legend(frameon=False, fontsize=7)
    return Section(
        "Direct and projected M-steps",
        "Ratio is alpha_zeta / alpha_omega, the larger of the two being 0.2. The paper asks for a"
        " ratio that goes to 0, Maei et al. (2009) for one that goes to infinity. With expected"
        " updates both ends converge; what counts is how small alpha_omega is.",
        ["problem", "M-step", "ratio", "outcome"],
        rows,
        figure,
    )


SECTIONS = (exact_em, merl_counterexample, boltzmann_concentrates, risk_seeking, projected_m_steps)
