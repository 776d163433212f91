"""GTD2 and TDC for a nonlinear Q, with zeta learned by its own optimiser (Maei et al. 2009)."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from virel_tf.algorithms.critic_ensemble import Critics, Regression
from virel_tf.algorithms.m_steps.base import Loss, MStep, MStepInputs, MStepResult, watching
from virel_tf.config import Config
from virel_tf.networks.adam import FusedAdam
from virel_tf.objective.m_step import gtd2, projection_step, tdc


class Projected(MStep):
    """Descends the projected residual error."""

    step: Callable[..., tf.Tensor]

    def __init__(
        self, config: Config, critics: Critics, parameters: list[tf.Variable], loss: Loss
    ) -> None:
        super().__init__(config, critics, parameters, loss)
        self.zeta = [tf.Variable(tf.zeros_like(p), trainable=False) for p in parameters]
        self.optimiser = FusedAdam(self.zeta, critics.recipe.zeta_learning_rate)
        self.variables = [*self.zeta, *self.optimiser.variables]

    def __call__(self, inputs: MStepInputs) -> MStepResult:
        """One M-step."""
        with watching(self.parameters, persistent=True) as tape:
            directions = [tf.identity(zeta) for zeta in self.zeta]
            with tf.autodiff.ForwardAccumulator(self.parameters, directions) as forward:
                qs = self.online_qs(inputs)
                fitted = [forward.jvp(q) for q in qs.predictions]  # b^T zeta
            targets = self.online_targets(inputs, qs)[0]
            triples = list(zip(qs.predictions, targets, fitted, strict=True))
            step = sum(self.step(*triple) for triple in triples)
            zeta_step = sum(projection_step(*triple) for triple in triples)
        gradients = tape.gradient(step, self.parameters)
        self.optimiser.apply(tape.gradient(zeta_step, self.parameters))
        return self.result(inputs, Regression(qs.predictions, targets), gradients)


class Gtd2(Projected):
    """E[(b^T zeta) grad beta] + curvature."""

    step = staticmethod(gtd2)


class Tdc(Projected):
    """-E[beta b] + gamma E[(b^T zeta) b'] + curvature."""

    step = staticmethod(tdc)
