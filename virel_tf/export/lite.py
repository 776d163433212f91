"""A policy for LiteRT (TensorFlow Lite).

Its deterministic action, in float32 and with int8 weights.
"""

from __future__ import annotations

import warnings

import numpy as np
import tensorflow as tf

from virel_tf.export.converted import Converted
from virel_tf.export.signatures import ServedPolicy


def lite_files(served: ServedPolicy) -> dict[str, Converted]:
    """policy.tflite, and policy_int8.tflite whose large weights are int8 (dynamic range).

    The error of the latter is reported, not checked.
    """
    return {
        "policy.tflite": Converted(convert(served, []), run_lite, 1e-4),
        "policy_int8.tflite": Converted(
            convert(served, [tf.lite.Optimize.DEFAULT]), run_lite, None
        ),
    }


def convert(served: ServedPolicy, optimisations: list[tf.lite.Optimize]) -> bytes:
    """The file's content.

    Its only signature is serving_default, observation [B, D] -> action [B, A].
    """
    module = tf.Module()
    module.parameters = served.variables
    act = served.graph(served.unchecked_act, "observation")
    converter = tf.lite.TFLiteConverter.from_concrete_functions([act], module)
    converter.optimizations = optimisations
    return converter.convert()


def run_lite(model: bytes, observation: np.ndarray) -> np.ndarray:
    """Actions [B, A] of a file's content."""
    with warnings.catch_warnings():
        # it warns that it will move to another package
        warnings.simplefilter("ignore", UserWarning)
        interpreter = tf.lite.Interpreter(model_content=model)
    return interpreter.get_signature_runner()(observation=observation)["action"]
