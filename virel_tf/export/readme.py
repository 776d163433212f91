"""The texts beside an exported model.

How to call it, and what a server's configuration says of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from virel_tf.config import POLICIES

Examples = Mapping[str, Mapping[str, np.ndarray]]  # one row of input for each signature
MEANING = {
    "serving_default": "the action of the policy without its noise, in the environment's own units",
    "sample": (
        "the action for standard normal `noise` of yours, and the logarithm of its density in the"
        " environment's own units"
    ),
    "distribution": "mean and deviation of the Gaussian before tanh and scaling",
    "value": (
        "`q` of any action, and `v` where the variant learns one, in the environment's rewards"
    ),
}


MODELS_CONFIG = "models.config"


def models_config(names: Sequence[str]) -> str:
    """TensorFlow Serving's model_config_list; the folder of the models is mounted at /models."""
    entries = "".join(
        f'  config {{ name: "{name}" base_path: "/models/{name}" model_platform: "tensorflow" }}\n'
        for name in names
    )
    return f"model_config_list {{\n{entries}}}\n"


def readme(metadata: Mapping[str, Any], model_name: str, version: int, examples: Examples) -> str:
    """README.md of one version."""
    observation, action = metadata["observation"], metadata["action"]
    reached = (
        ""
        if metadata["return"] is None
        else f", mean return {metadata['return']:.1f} in evaluation"
    )
    parts = "\n".join(
        f"- [{part['start']}:{part['stop']}] {part['name'] or 'all'}: {part['space']}"
        for part in observation["layout"]
    )
    which = metadata["policy"]
    title = f"the {which} policy" if which in POLICIES else f"the policy of step {which}"
    return f"""# {metadata["env"]}, {metadata["variant"]}: {title}

Trained for {metadata["step"]} steps{reached}. metadata.json says the rest: spaces, versions, seed.

An observation is {observation["size"]} float32 numbers, not normalised:

{parts}

An action is {action["size"]} float32 numbers between {action["low"]} and {action["high"]}.

| signature | inputs | what it answers |
|---|---|---|
{signature_rows(examples)}

Any number of rows may be asked about at once. A wrong rank or width, NaN and infinity are errors.

## TensorFlow Serving

The folder with the numbered versions must be called `{model_name}`. From the folder above it:

    docker run -p 8500:8500 -p 8501:8501 -v "$PWD:/models" -e MODEL_NAME={model_name} tensorflow/serving

Where a models.config lies there too, all models it lists are served by (the paths it names are the container's)

    docker run -p 8500:8500 -p 8501:8501 -v "$PWD:/models" tensorflow/serving \\
      --model_config_file=/models/models.config

Without Docker, where tensorflow_model_server is installed:

    tensorflow_model_server --port=8500 --rest_api_port=8501 --model_name={model_name} \\
      --model_base_path="$PWD/{model_name}"

## REST

{rest_calls(model_name, examples)}
## gRPC

    pip install tensorflow-serving-api

```python
{grpc_call(model_name, examples)}
```

## Python with TensorFlow

```python
import tensorflow as tf
policy = tf.saved_model.load("{model_name}/{version}")
action = policy.signatures["serving_default"](observation=tf.constant({rows(examples, "serving_default")}))["action"]
```
"""


def signature_rows(examples: Examples) -> str:
    """The table of signatures."""

    def inputs(name: str) -> str:
        return ", ".join(f"{key} [B, {value.shape[1]}]" for key, value in examples[name].items())

    return "\n".join(f"| `{name}` | {inputs(name)} | {MEANING[name]} |" for name in examples)


def rest_calls(model_name: str, examples: Examples) -> str:
    """A curl command for each signature."""
    calls = []
    for name, inputs in examples.items():
        body = {
            "signature_name": name,
            "inputs": {key: short(value) for key, value in inputs.items()},
        }
        calls.append(
            f"    curl -d '{json.dumps(body)}' \\\n"
            f"      http://localhost:8501/v1/models/{model_name}:predict\n"
        )
    return "\n".join(calls)


def grpc_call(model_name: str, examples: Examples) -> str:
    """A client in Python."""
    return f"""import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

service = prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel("localhost:8500"))
request = predict_pb2.PredictRequest()
request.model_spec.name, request.model_spec.signature_name = "{model_name}", "serving_default"
observation = {rows(examples, "serving_default")}
request.inputs["observation"].CopyFrom(tf.make_tensor_proto(observation, tf.float32))
print(tf.make_ndarray(service.Predict(request, timeout=1.0).outputs["action"]))"""


def rows(examples: Examples, signature: str) -> str:
    """The example's observation as Python source."""
    return repr(short(examples[signature]["observation"]))


def short(value: np.ndarray) -> list[Any]:
    """Rounded, to be read and typed."""
    return np.round(value.astype(np.float64), 3).tolist()
