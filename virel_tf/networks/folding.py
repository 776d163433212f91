"""Networks without their batch normalisation, for export.

In inference mode it is part of the dense layers.

`networks/layers.py` has the equation. A folded network gives the same numbers as the one it was
made from, and its graph is that of a network which never had a normalisation.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from virel_tf.networks.critics import QNetwork, ValueNetwork
from virel_tf.networks.layers import fold
from virel_tf.networks.policies import Policy

Network = Policy | QNetwork | ValueNetwork


def without_batch_norm(network: Network) -> Network:
    """The network itself where it has no batch normalisation, else a new one with the same answers."""
    if not network.hidden.batch_norms:
        return network
    if isinstance(network, QNetwork):
        return folded_q(network)
    if isinstance(network, ValueNetwork):
        return folded_value(network)
    return folded_policy(network)


def folded_policy(policy: Policy) -> Policy:
    """A policy without batch normalisation; it keeps the observation statistics."""
    size = policy.normaliser.mean.shape[0]
    outputs = policy.output_layer.units
    plain = Policy(
        size,
        outputs if policy.deterministic else outputs // 2,
        policy.output_layer.kernel.shape[0],
        len(policy.hidden.dense),
        seed=0,
        activation=policy.activation,
        deterministic=policy.deterministic,
        name=policy.name,
    )
    for variable, source in zip(
        plain.normaliser.variables, policy.normaliser.variables, strict=True
    ):
        variable.assign(source.value)
    assign_dense([*plain.hidden.dense, plain.output_layer], policy.folded())
    return plain


def folded_value(value: ValueNetwork) -> ValueNetwork:
    """A V without batch normalisation."""
    first = value.hidden.dense[0].kernel
    plain = ValueNetwork(
        first.shape[0],
        first.shape[1],
        len(value.hidden.dense),
        seed=0,
        activation=value.hidden.activation,
        name=value.name,
    )
    assign_dense([*plain.hidden.dense, plain.output_layer], value.hidden.folded(value.output_layer))
    return plain


def folded_q(q: QNetwork) -> QNetwork:
    """A Q without batch normalisation."""
    assert q.observation_norm is not None and q.action_norm is not None
    observation_kernel, observation_bias = fold(q.observation_norm, q.observation_layer)
    action_kernel, action_bias = fold(q.action_norm, q.action_layer)
    plain = QNetwork(
        observation_kernel.shape[0],
        action_kernel.shape[0],
        observation_kernel.shape[1],
        1 + len(q.hidden.dense),
        seed=0,
        activation=q.hidden.activation,
        name=q.name,
    )
    plain.observation_layer.kernel.assign(observation_kernel)
    plain.observation_layer.bias.assign(observation_bias + action_bias)
    plain.action_layer.kernel.assign(action_kernel)
    assign_dense([*plain.hidden.dense, plain.output_layer], q.hidden.folded(q.output_layer))
    return plain


def assign_dense(
    layers: list[keras.layers.Dense], weights: list[tuple[tf.Tensor, tf.Tensor]]
) -> None:
    """Gives each layer its kernel and bias."""
    for layer, (kernel, bias) in zip(layers, weights, strict=True):
        layer.kernel.assign(kernel)
        layer.bias.assign(bias)
