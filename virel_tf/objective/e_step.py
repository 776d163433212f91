r"""E-step: move the policy towards the Boltzmann policy of the critic, by ascending (6)

    epsilon grad_theta L = E_{s ~ D}[ grad_theta ( E_{a ~ pi_theta}[ Q(s, a) ] - temperature
    KL(pi_theta || prior) ) ]

With the uniform prior the KL is minus the entropy, up to a constant: the paper's main text, and
SAC. With the policy of some updates ago as prior it is MPO (equation 42); see
`theory/mpo.py`.

| estimator | action | gradient flows through | algorithm |
|---|---|---|---|
| reparametrised | a = f_theta(s, noise) | the action, into Q | SVG0, SAC, the paper's experiments |
| score | a ~ pi_theta, held fixed | log pi_theta only | REINFORCE with the baseline V |
| expected | all of them, in closed form | Q's slope and curvature around the mean | expected policy gradients (EPG) |
| deterministic | a = mu_theta(s) | the action, into Q | DPG: the first as deviation and temperature go to 0 |

`temperature` is the one word for the factor on the KL: epsilon_omega in the paper's theory, lambda
epsilon-hat in beta, alpha in virel and in SAC.

The appendix prints J^pi = E[log pi (alpha - (Q - V))]. Differentiated as a score function that is
not equation (6): E[alpha grad log pi] = 0, so the temperature would do nothing. The factor that
belongs there is alpha log pi, which is the estimator below; see docs/errata.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

LEAST_WIDTH = (
    0.01  # over which Q's curvature is measured; differences over less drown in float32's rounding
)


class EStepInputs(NamedTuple):
    """What a policy loss is made of, at the policy's own action."""

    q: tf.Tensor  # Q(s, a) [B], the minimum over the critics
    log_prob: tf.Tensor  # log pi_theta(a|s) [B]
    log_prior: tf.Tensor  # log prior(a|s) [B], up to a constant
    # the baseline V(s) [B]; 0 for an E-step without one, and where no V is learned
    value: tf.Tensor
    temperature: tf.Tensor  # []


def reparametrised_loss(inputs: EStepInputs) -> tf.Tensor:
    """E[ temperature (log pi(a|s) - log prior(a|s)) - Q(s, a) ] with a = f_theta(s, noise) -> []."""
    temperature = tf.stop_gradient(inputs.temperature)
    return tf.reduce_mean(temperature * (inputs.log_prob - inputs.log_prior) - inputs.q)


def score_function_loss(inputs: EStepInputs) -> tf.Tensor:
    """E[ log pi(a|s) sg( temperature (log pi - log prior) - (Q(s, a) - V(s)) ) ] -> [].

    a is held fixed.
    """
    weight = inputs.temperature * (inputs.log_prob - inputs.log_prior) - (inputs.q - inputs.value)
    return tf.reduce_mean(inputs.log_prob * tf.stop_gradient(weight))


def deterministic_loss(inputs: EStepInputs) -> tf.Tensor:
    """E[ -Q(s, mu_theta(s)) ] -> []."""
    return -tf.reduce_mean(inputs.q)


def regulariser(loc: tf.Tensor, log_scale: tf.Tensor | None, weight: float) -> tf.Tensor:
    """weight (mean(loc^2) + mean(log_scale^2)), from the authors' code.

    Loc and log_scale [B, A] -> [].
    """
    spread = 0.0 if log_scale is None else tf.reduce_mean(tf.square(log_scale))
    return weight * (tf.reduce_mean(tf.square(loc)) + spread)


def expected_q(q: tf.Tensor, curvature: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """E[Q] for x ~ N(loc, scale^2): Q(loc) + 1/2 sum_i d^2Q/dx_i^2 scale_i^2 -> [B].

    Exact where Q is quadratic in x.

    q = Q(loc) [B], with its gradient; curvature [B, A], held fixed, so that the mean follows Q's
    slope and the deviation its curvature.
    """
    return q + 0.5 * tf.reduce_sum(tf.stop_gradient(curvature) * tf.square(scale), axis=-1)


def curvature_around(
    q_of: Callable[[tf.Tensor], tf.Tensor], loc: tf.Tensor, scale: tf.Tensor
) -> tf.Tensor:
    """d^2Q/dx_i^2 at x = loc; loc and scale [B, A] -> [B, A].

    It is Q's second difference over the policy's own width.

    q_of maps N B points [N B, A], B after B, to Q [N B]. Derivatives would not do: those of a
    network of ReLUs are 0 almost everywhere, however curved the function is that it has learned.
    """
    batch, actions = loc.shape
    width = tf.maximum(scale, LEAST_WIDTH)
    steps = tf.transpose(tf.linalg.diag(width), [1, 0, 2])  # [A, B, A]: one action at a time
    points = tf.stack([loc + steps, loc - steps])
    above, below = tf.unstack(
        tf.reshape(q_of(tf.reshape(points, [-1, actions])), [2, actions, batch])
    )
    return tf.transpose(above + below - 2.0 * q_of(loc)) / tf.square(width)


def expected_squashed_entropy(loc: tf.Tensor, log_scale: tf.Tensor) -> tf.Tensor:
    """Entropy of tanh(x), x ~ N(loc, scale^2), with log(1 - tanh^2) expanded about loc as Q is.

    [B, A] -> [B].
    """
    slope = 1.0 - tf.square(tf.tanh(loc))  # of tanh; d^2 log(slope) / dx^2 = -2 slope
    # without a logarithm of 0 far out
    log_slope = 2.0 * (math.log(2.0) - loc - tf.nn.softplus(-2.0 * loc))
    gaussian = log_scale + 0.5 * math.log(2 * math.pi * math.e)
    return tf.reduce_sum(gaussian + log_slope - slope * tf.exp(2.0 * log_scale), axis=-1)


class EStep(NamedTuple):
    """A policy loss and what it needs to be an estimator of the gradient."""

    loss: Callable[[EStepInputs], tf.Tensor]
    holds_action: bool = False  # no gradient flows through the action
    has_baseline: bool = False
    in_expectation: bool = (
        False  # q is E[Q] and log_prob minus the entropy, in closed form; no action is drawn
    )


E_STEPS: dict[str, EStep] = {
    "reparametrised": EStep(reparametrised_loss),
    "score": EStep(score_function_loss, holds_action=True, has_baseline=True),
    "expected": EStep(reparametrised_loss, in_expectation=True),
    "deterministic": EStep(deterministic_loss),
}
