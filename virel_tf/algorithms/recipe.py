"""A variant is a recipe: which target, which M-step, which E-step, which temperature. Nothing else differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from virel_tf.algorithms.temperature import Temperature


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The choices that make an algorithm. Each is a function of `virel_tf.objective` or a temperature.

    critics:       in words, which value functions are learned
    q_target:      (reward, terminated, V-bar(s'), discount) [B] -> [B]
    v_target:      Q(s, a_pi) [B] -> [B]
    m_step:        (prediction, target) [B] -> loss
    e_steps:       the policy losses on offer, by the name that --e_step takes
    temperature:   what scales the entropy in the E-step
    """

    critics: str
    q_target: Callable[..., tf.Tensor]
    v_target: Callable[..., tf.Tensor]
    m_step: Callable[..., tf.Tensor]
    e_steps: dict[str, Callable[..., tf.Tensor]]
    temperature: type[Temperature]
