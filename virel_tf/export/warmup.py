"""Warm-up requests for TensorFlow Serving: it sends them to a new version before anybody else may.

The records are `tensorflow.serving.PredictionLog` messages. Their few levels are written out here,
so that an export does not need tensorflow-serving-api, the package with their classes; a test reads
them with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

Tensors = Mapping[str, np.ndarray]
WARMUP_FILE = Path("assets.extra") / "tf_serving_warmup_requests"


def write_warmup(
    export: Path, model_name: str, exchanges: Mapping[str, tuple[Tensors, Tensors]]
) -> None:
    """One record for each signature: its inputs, and the outputs they gave."""
    (export / WARMUP_FILE).parent.mkdir()
    with tf.io.TFRecordWriter(str(export / WARMUP_FILE)) as file:
        for signature, (inputs, outputs) in exchanges.items():
            file.write(prediction_log(model_name, signature, inputs, outputs))


def prediction_log(model_name: str, signature: str, inputs: Tensors, outputs: Tensors) -> bytes:
    """The fields of the protocol buffers, by their numbers.

    PredictionLog{predict_log: 6}, PredictLog{request: 1, response: 2}, ModelSpec{name: 1,
    signature_name: 3}, PredictRequest{model_spec: 1, inputs: 2}, PredictResponse{outputs: 1,
    model_spec: 2}.
    """
    model_spec = field(1, model_name.encode()) + field(3, signature.encode())
    request = field(1, model_spec) + tensor_map(2, inputs)
    response = tensor_map(1, outputs) + field(2, model_spec)
    return field(6, field(1, request) + field(2, response))


def tensor_map(number: int, tensors: Tensors) -> bytes:
    """A map<string, TensorProto>: on the wire, a message {key: 1, value: 2} for each entry."""
    return b"".join(
        field(
            number,
            field(1, name.encode()) + field(2, tf.make_tensor_proto(tensor).SerializeToString()),
        )
        for name, tensor in tensors.items()
    )


def field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer whose content has a length (wire type 2).

    Text, bytes or a message.
    """
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """A number in groups of seven bits, lowest first; the top bit says that more follow."""
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])
