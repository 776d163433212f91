"""Baird's residual gradient: the gradient flows through the target as well."""

from __future__ import annotations

from virel_tf.algorithms.critic_ensemble import Regression
from virel_tf.algorithms.m_steps.base import MStep, MStepInputs, MStepResult, watching
from virel_tf.objective.m_step import residual_gradient


class Residual(MStep):
    """Descends E[beta_1 grad beta_2], with two independent actions at s'."""

    next_actions = 2

    def __call__(self, inputs: MStepInputs) -> MStepResult:
        """One M-step."""
        with watching(self.parameters) as tape:
            qs = self.online_qs(inputs)
            targets, independent = self.online_targets(inputs, qs)
            steps = [
                residual_gradient(target - q, other - q)
                for q, target, other in zip(qs.predictions, targets, independent, strict=True)
            ]
            step = sum(steps)
        gradients = tape.gradient(step, self.parameters)
        return self.result(inputs, Regression(qs.predictions, targets), gradients)
