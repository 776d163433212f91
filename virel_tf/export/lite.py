"""A policy for LiteRT (TensorFlow Lite): its deterministic action, in float32 and with int8 weights."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from virel_tf.errors import RunError
from virel_tf.export.signatures import ServedPolicy

TOLERANCE = 1e-4  # of the action's half width, between LiteRT and TensorFlow in float32
ROWS = 256


def write_lite(folder: Path, served: ServedPolicy, metadata: dict[str, Any]) -> None:
    """policy.tflite and policy_int8.tflite (dynamic range), checked against what TensorFlow answers."""
    act = served.signatures()["serving_default"]
    observation = np.random.default_rng(0).normal(size=[ROWS, served.observation_size]).astype(np.float32)
    expected = act(observation)["action"].numpy()
    errors = {}
    for name, optimisations in (("policy.tflite", []), ("policy_int8.tflite", [tf.lite.Optimize.DEFAULT])):
        model = convert(served, optimisations)
        (folder / name).write_bytes(model)
        scale = np.where(served.half_width > 0, served.half_width, 1)
        errors[name] = float(np.max(np.abs(run_lite(model, observation) - expected) / scale))
    if errors["policy.tflite"] > TOLERANCE:
        raise RunError(f"LiteRT's actions differ from TensorFlow's by {errors['policy.tflite']:.2g} of their half "
                       f"width, more than {TOLERANCE}; nothing was written")
    about = metadata | dict(largest_difference=errors)
    (folder / "metadata.json").write_text(json.dumps(about, indent=2) + "\n")


def convert(served: ServedPolicy, optimisations: list[tf.lite.Optimize]) -> bytes:
    """The .tflite file's content; its signature is serving_default, observation [B, D] -> action [B, A]."""
    module = tf.Module()
    module.parameters = served.variables

    # LiteRT drops checks of its input. There the answer to NaN or infinity is NaN, whatever the layers between make
    # of it: 0 times either is NaN.
    def act(observation: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"action": served.act(observation)["action"] + tf.reduce_sum(0.0 * observation, -1, keepdims=True)}

    function = tf.function(act, input_signature=served.signatures()["serving_default"].input_signature)
    module.act = function
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], module)
    converter.optimizations = optimisations
    return converter.convert()


def run_lite(model: bytes, observation: np.ndarray) -> np.ndarray:
    """Actions [B, A] of a .tflite file's content."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a later TensorFlow will have it in a package of its own
        interpreter = tf.lite.Interpreter(model_content=model)
    return interpreter.get_signature_runner()(observation=observation)["action"]
