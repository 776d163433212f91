"""The tensors that travel between the parts, and the letters of their shapes.

| letter | meaning |
|---|---|
| B | transitions in a batch |
| D | numbers in an observation, flattened |
| A | numbers in an action, each in [-1, 1] |
| E | environments stepped side by side |
| U | updates fused in one call |
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Transition(NamedTuple):
    """A batch (s, a, r, s').

    `terminated` is 1 where the episode ended for good, 0 where it went on or was cut off.
    """

    observation: tf.Tensor  # [B, D]
    action: tf.Tensor  # [B, A]
    reward: tf.Tensor  # [B]
    terminated: tf.Tensor  # [B]
    next_observation: tf.Tensor  # [B, D]
    # [B], on the value of s': gamma, or its n-th power where r adds up n rewards
    discount: tf.Tensor


def check_transition(batch: Transition) -> None:
    """Asserts that the shapes agree with the letters above."""
    tf.debugging.assert_shapes(
        [
            (batch.observation, ("B", "D")),
            (batch.action, ("B", "A")),
            (batch.reward, ("B",)),
            (batch.terminated, ("B",)),
            (batch.next_observation, ("B", "D")),
            (batch.discount, ("B",)),
        ]
    )
