"""The policy for acting: a NumPy copy of its weights.

Collection and evaluation ask for one observation at a time. There a compiled TensorFlow call costs
far more than the arithmetic it does, so the same few matrix products are done here on a copy that
`refresh` brings up to date. A test holds this against `Policy`, whose equations it repeats.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from virel_tf.networks.normaliser import CLIP, EPSILON
from virel_tf.networks.policies import LOG_SCALE_RANGE, Policy

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


class Actor:
    """Raw observations [E, D] -> actions [E, A] in [-1, 1]."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.refresh()

    def refresh(self) -> None:
        """Takes over the policy's weights and observation statistics as they are now."""
        self.layers = [(kernel.numpy(), bias.numpy()) for kernel, bias in self.policy.folded()]
        normaliser = self.policy.normaliser
        self.statistics = None
        if normaliser.count.numpy() > 0:
            self.statistics = (
                normaliser.mean.numpy(),
                1 / np.sqrt(normaliser.variance.numpy() + EPSILON),
            )

    def mean_action(self, observation: np.ndarray) -> np.ndarray:
        """tanh(loc)."""
        return np.tanh(self._outputs(observation)[0])

    def sample_action(self, observation: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """tanh(loc + scale noise), with noise [E, A] standard normal.

        Tanh(loc) where the policy is deterministic.
        """
        loc, log_scale = self._outputs(observation)
        return np.tanh(loc if log_scale is None else loc + np.exp(log_scale) * noise)

    def _outputs(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        x, activate = observation, ACTIVATIONS[self.policy.activation]
        if self.statistics:
            mean, inverse_deviation = self.statistics
            x = np.clip((x - mean) * inverse_deviation, -CLIP, CLIP)
        for kernel, bias in self.layers[:-1]:
            x = activate(x @ kernel + bias)
        kernel, bias = self.layers[-1]
        outputs = x @ kernel + bias
        if self.policy.deterministic:
            return outputs, None
        loc, log_scale = np.split(outputs, 2, axis=-1)
        return loc, np.clip(log_scale, *LOG_SCALE_RANGE)
