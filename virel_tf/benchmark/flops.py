"""Floating-point operations of a compiled function, counted on its graph."""

from __future__ import annotations

import math

import tensorflow as tf


def matmul_flops(function: tf.types.experimental.ConcreteFunction) -> int:
    """2 m k n over every matrix product in the graph; their shapes must be static, and all else is left out."""
    return sum(2 * math.prod(op.outputs[0].shape) * op.inputs[0].shape[0 if op.get_attr("transpose_a") else 1]
               for op in function.graph.get_operations() if op.type == "MatMul")
