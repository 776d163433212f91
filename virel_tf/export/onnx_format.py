"""A policy for ONNX runtimes: its deterministic action."""

from __future__ import annotations

from typing import cast

import numpy as np
import tensorflow as tf

from virel_tf.errors import ConfigError
from virel_tf.export.converted import Converted
from virel_tf.export.signatures import ServedPolicy

OPSET = 15


def onnx_files(served: ServedPolicy) -> dict[str, Converted]:
    """policy.onnx: observation [B, D] -> action [B, A]."""
    try:
        import tf2onnx
    except ImportError:
        raise ConfigError(
            "format", "onnx needs the package tf2onnx; install virel_tf[onnx]"
        ) from None
    observation = tf.TensorSpec([None, served.observation_size], name="observation")
    model, _ = tf2onnx.convert.from_function(
        tf.function(served.unchecked_act), [observation], opset=OPSET
    )
    return {"policy.onnx": Converted(model.SerializeToString(), run_onnx, 1e-4)}


def run_onnx(model: bytes, observation: np.ndarray) -> np.ndarray:
    """Actions [B, A] of a file's content, by ONNX' own slow evaluator, which tf2onnx brings along."""
    import onnx.reference

    evaluator = onnx.reference.ReferenceEvaluator(model)
    outputs = evaluator.run(["action"], {"observation": observation})
    return cast("list[np.ndarray]", outputs)[0]
