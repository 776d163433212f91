"""The matrix products of a compiled function.

How much they compute, and how fast they are with nothing around them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf


class Product(NamedTuple):
    """One matrix product: the stored shapes of its factors, and which of them is transposed."""

    left: tuple[int, int]
    right: tuple[int, int]
    transpose_left: bool
    transpose_right: bool

    @property
    def flops(self) -> int:
        """2 m k n."""
        columns = self.right[0] if self.transpose_right else self.right[1]
        return 2 * self.left[0] * self.left[1] * columns


def products_of(function: tf.types.experimental.ConcreteFunction) -> list[Product]:
    """Every matrix product in the graph, whose shapes must be static."""
    return [
        Product(
            tuple(op.inputs[0].shape),
            tuple(op.inputs[1].shape),
            op.get_attr("transpose_a"),
            op.get_attr("transpose_b"),
        )
        for op in function.graph.get_operations()
        if op.type == "MatMul"
    ]


def bare_products(products: list[Product], cores: int, times: int) -> Callable[[], object]:
    """A call that does these products `times` and nothing else, shared out over the cores.

    About the most that updates of these shapes could reach with TensorFlow's kernels.
    """
    shares: list[list[Product]] = [[] for _ in range(cores)]
    for product in sorted(products, key=lambda product: product.flops, reverse=True):
        min(shares, key=lambda share: sum(other.flops for other in share)).append(product)
    # Each product has factors of its own, as in an update; with shared ones TensorFlow would do
    # equal products once.
    factors = [
        [
            [
                tf.Variable(tf.random.stateless_normal(shape, [1, 2]))
                for shape in (product.left, product.right)
            ]
            for product in share
        ]
        for share in shares
    ]

    def multiply(share: list[Product], pairs: list[list[tf.Variable]]) -> tf.Tensor:
        total = tf.constant(0.0)
        for _ in tf.range(times):
            for product, (left, right) in zip(share, pairs, strict=True):
                with tf.control_dependencies([total]):  # one core's products come one after another
                    result = tf.matmul(
                        left,
                        right,
                        transpose_a=product.transpose_left,
                        transpose_b=product.transpose_right,
                    )
                total += result[0, 0]
        return total

    @tf.function
    def multiply_all() -> list[tf.Tensor]:
        return [multiply(*work) for work in zip(shares, factors, strict=True)]

    return lambda: [total.numpy() for total in multiply_all()]
