"""A policy as a SavedModel, with warm-up requests, metadata and a README."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from virel_tf.envs.make import Environment
from virel_tf.export.metadata import METADATA
from virel_tf.export.readme import readme
from virel_tf.export.signatures import ServedPolicy
from virel_tf.export.versions import number_of
from virel_tf.export.warmup import write_warmup


def write_saved_model(
    folder: Path, served: ServedPolicy, env: Environment, metadata: dict[str, Any], model_name: str
) -> None:
    """Fills an empty folder with a version of the model."""
    # A bare module: only variables and functions are saved, no Keras object, which a loader would
    # need Keras for.
    module = tf.Module()
    module.parameters = served.variables
    signatures = served.signatures()
    tf.saved_model.save(module, str(folder), signatures=signatures)
    examples = example_inputs(signatures, env)
    answers = {
        name: {key: tensor.numpy() for key, tensor in signatures[name](**inputs).items()}
        for name, inputs in examples.items()
    }
    write_warmup(folder, model_name, {name: (examples[name], answers[name]) for name in signatures})
    shapes = {
        name: dict(inputs=shapes_of(examples[name]), outputs=shapes_of(answers[name]))
        for name in signatures
    }
    (folder / METADATA).write_text(json.dumps(metadata | dict(signatures=shapes), indent=2) + "\n")
    (folder / "README.md").write_text(readme(metadata, model_name, number_of(folder), examples))


def example_inputs(
    signatures: dict[str, tf.types.experimental.ConcreteFunction], env: Environment
) -> dict[str, dict[str, np.ndarray]]:
    """One row of input for each signature.

    A state the environment starts in, the middle action, no noise.
    """
    rows = {
        "observation": env.reset(seed=0),
        "action": env.action_middle,
        "noise": np.zeros(env.action_size),
    }
    inputs = {
        name: [spec.name for spec in function.structured_input_signature[0]]
        for name, function in signatures.items()
    }
    return {
        name: {key: rows[key].astype(np.float32)[None] for key in keys}
        for name, keys in inputs.items()
    }


def shapes_of(tensors: dict[str, np.ndarray]) -> dict[str, list[int | None]]:
    """Shapes by name, any number of rows."""
    return {name: [None, *tensor.shape[1:]] for name, tensor in tensors.items()}
