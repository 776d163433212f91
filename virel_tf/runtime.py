"""How TensorFlow uses the machine."""

from __future__ import annotations

import contextlib

import tensorflow as tf

from virel_tf.machine import cores


def configure(threads: int) -> None:
    """Threads across operations, not inside them: these networks are too small to split one product
    over cores.

    Where the caller has used TensorFlow before, its threads and memory are set up already and stay
    as they are.
    """
    with contextlib.suppress(RuntimeError):
        if tf.config.threading.get_inter_op_parallelism_threads() == 0:
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(cores(threads))
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
