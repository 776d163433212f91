"""The mean of the policy over its recent past: what is evaluated, saved and exported.

The newest policy is wherever the last few steps of Adam left it, and on some tasks one bad step
makes it fall (Polyak and Juditsky 1992 average for that reason). It goes on acting in training;
the critics never see the mean. With batch normalisation the mean is of the folded weights, which
hold the statistics as well.
"""

from __future__ import annotations

import tensorflow as tf

from virel_tf.networks.policies import Policy


class AveragedPolicy:
    """An exponential mean of a policy's weights, exact from the first one on."""

    def __init__(self, mean: Policy, decay: float) -> None:
        self.mean = mean
        self.decay = decay
        self.weight = tf.Variable(0.0, trainable=False)
        for norm in mean.hidden.all_batch_norms:
            norm.set_to_identity()

    def follow(self, policy: Policy) -> None:
        """Takes in the policy as it is now."""
        weight = self.weight.assign(self.decay * self.weight + 1.0)
        layers = [*self.mean.hidden.dense, self.mean.output_layer]
        for layer, (kernel, bias) in zip(layers, policy.folded(), strict=True):
            layer.kernel.value.assign_add((kernel - layer.kernel.value) / weight)
            layer.bias.value.assign_add((bias - layer.bias.value) / weight)
        statistics = zip(self.mean.normaliser.variables, policy.normaliser.variables, strict=True)
        for kept, new in statistics:
            kept.value.assign(new.value)
