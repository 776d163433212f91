"""The M-step of nearly every algorithm.

Regression on TD targets that are held fixed (TD, DQN, SAC).
"""

from __future__ import annotations

from virel_tf.algorithms.critic_ensemble import Regression
from virel_tf.algorithms.m_steps.base import MStep, MStepInputs, MStepResult, watching


class Direct(MStep):
    """Descends E[1/2 (Q - sg(T Q))^2]."""

    def __call__(self, inputs: MStepInputs) -> MStepResult:
        """One M-step."""
        with watching(self.parameters) as tape:
            regression = self.regression(inputs, online=False)
            loss = self.total_loss(regression)
        gradients = tape.gradient(loss, self.parameters)
        return MStepResult(regression, loss, gradients, regression.observation_parts)

    def regression(self, inputs: MStepInputs, online: bool, track: bool = True) -> Regression:
        """See `MStep`."""
        return self.critics.regression(
            inputs.batch, inputs.next_sample, inputs.temperature, inputs.subset_seed, online, track
        )
