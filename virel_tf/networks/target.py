"""Polyak averaging: phi-bar <- tau phi + (1 - tau) phi-bar (Algorithms 1 and 2)."""

from __future__ import annotations

import keras
import tensorflow as tf


def copy_weights(source: keras.Model, target: keras.Model) -> None:
    """Makes `target` equal to `source`."""
    for online, slow in zip(source.variables, target.variables, strict=True):
        slow.assign(online.value)


def polyak_update(source: keras.Model, target: keras.Model, tau: float) -> None:
    """Moves `target` a fraction tau of the way to `source`."""
    for online, slow in zip(source.trainable_variables, target.trainable_variables, strict=True):
        # slow -= tau (slow - online), in place: this op needs one temporary where assign_add would need two.
        tf.raw_ops.ResourceApplyGradientDescent(var=slow.value.handle, alpha=tau, delta=slow.value - online.value)
