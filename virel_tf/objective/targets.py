r"""Target operators: what a value is regressed on.

    J^Q:  r_t + gamma (1 - terminated_t) U(s_{t+1})          (appendix H)
    J^V:  U(s_t), where U(s) = E_{a ~ pi_theta} [ hard or soft (Q)(s, a) ]

| U | value of a state | operator | algorithms |
|---|---|---|---|
| `hard` | E[Q] | T^{pi_theta} for T^{pi_omega}, in the set of Definition 2 | virel, beta, virel1, mpo, ddpg |
| `soft` | E[Q - temperature log pi] | soft, outside that set: its fixed point holds entropies | sac_v1, sac |

virel2 has one Q of each. With several critics the Q above is their minimum (Fujimoto et al. 2018).
With --n_step=n the reward is the discounted sum of up to n rewards and gamma its matching power;
the actions in between are the replay's, without correction, and soft values take in the entropy of
the last state only.

Gradients flow through all of these, for the M-steps that want them; the direct one holds its target
fixed.

The paper writes the target without the `terminated` factor. An episode that terminated has no
s_{t+1}, so nothing is bootstrapped there; one that was merely truncated goes on beyond what was
seen, so it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf


def td_target(
    reward: tf.Tensor, terminated: tf.Tensor, next_value: tf.Tensor, discount: tf.Tensor | float
) -> tf.Tensor:
    """r + gamma (1 - terminated) U(s'), all [B]."""
    return reward + discount * (1.0 - terminated) * next_value


def bounded(next_value: tf.Tensor, bound: float) -> tf.Tensor:
    """U(s') within +-bound [B]; unchanged for a bound of 0.

    An estimate beyond every return that was ever seen is an error of the critic. Clipped, it cannot
    raise the targets that it is learned from.
    """
    if not bound:
        return next_value
    return tf.clip_by_value(next_value, -bound, bound)


def hard(q: tf.Tensor, log_prob: tf.Tensor, temperature: tf.Tensor) -> tf.Tensor:
    """One-sample estimate of E_{a ~ pi}[Q(s, a)] from Q(s, a_pi) [B]."""
    del log_prob, temperature
    return q


def soft(q: tf.Tensor, log_prob: tf.Tensor, temperature: tf.Tensor) -> tf.Tensor:
    """One-sample estimate of E_{a ~ pi}[Q(s, a) - temperature log pi(a|s)] [B]."""
    return q - temperature * log_prob


VALUES: dict[str, Callable[..., tf.Tensor]] = {"hard": hard, "soft": soft}


def minimum(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """The smallest of one or more critics, elementwise.

    Its gradient goes to the critic that has it.
    """
    return values[0] if len(values) == 1 else tf.reduce_min(tf.stack(values), axis=0)


def mean(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """The mean of one or more critics, elementwise."""
    return tf.add_n(list(values)) / len(values)


def minimum_of_subset(values: Sequence[tf.Tensor], size: int, seed: tf.Tensor) -> tf.Tensor:
    """The smallest of `size` critics drawn without replacement (REDQ).

    They are the same ones for the whole batch.
    """
    chosen = tf.random.experimental.stateless_shuffle(tf.range(len(values)), seed)[:size]
    return tf.reduce_min(tf.gather(tf.stack(values), chosen), axis=0)


def clipped_noise(shape: Sequence[int], sigma: float, clip: float, seed: tf.Tensor) -> tf.Tensor:
    """TD3's noise on the next action: clip(sigma n, -clip, clip), n standard normal."""
    return tf.clip_by_value(sigma * tf.random.stateless_normal(shape, seed), -clip, clip)


def aligning_scale(
    mean_reward: tf.Tensor, mean_bonus: tf.Tensor, least: float = 0.1, most: float = 10.0
) -> tf.Tensor:
    """The factor on a soft critic's rewards at which its mean is the hard critic's.

    It is the k with k r + bonus = r.

    Both critics discount alike, so their means agree where the means of what they add up do: r in
    the hard one, k r and temperature * entropy in the soft one.
    """
    safe = tf.where(tf.abs(mean_reward) < 1e-6, 1e-6, mean_reward)
    return tf.clip_by_value(1.0 - mean_bonus / safe, least, most)
