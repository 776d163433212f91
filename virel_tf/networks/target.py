"""Polyak averaging: phi-bar <- tau phi + (1 - tau) phi-bar (Algorithms 1 and 2)."""

from __future__ import annotations

import keras
import tensorflow as tf


def copy_weights(source: keras.Model, target: keras.Model) -> None:
    """Makes `target` equal to `source`."""
    for online, followed in zip(source.variables, target.variables, strict=True):
        followed.assign(online.value)


def polyak_update(source: keras.Model, target: keras.Model, tau: float) -> None:
    """Moves `target` a fraction tau of the way to `source`.

    Weights, scales and offsets, not statistics.
    """
    for online, followed in zip(
        source.trainable_variables, target.trainable_variables, strict=True
    ):
        # followed -= tau (followed - online), in place: one temporary where assign_add needs two.
        tf.raw_ops.ResourceApplyGradientDescent(
            var=followed.value.handle, alpha=tau, delta=followed.value - online.value
        )
