"""An export answers as the training policy does in programs that have never heard of this package."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

pytestmark = pytest.mark.slow  # programs that load TensorFlow, or are linked with it
SIZES = (0, 1, 7, 1000, 4096)

# Runs where only TensorFlow is to be had: what else an export could need is put out of reach.
CLIENT = """
import sys
for name in ("virel_tf", "tensorflow_probability", "keras", "tf_keras", "gymnasium"):
    sys.modules[name] = None
import numpy as np, tensorflow as tf
act = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
with np.load(sys.argv[2]) as batches:
    actions = {name: act(observation=tf.constant(batches[name]))["action"].numpy() for name in batches.files}
np.savez(sys.argv[3], **actions)
"""


def assert_same_actions(run, actions: dict[str, np.ndarray]) -> None:
    for size in SIZES:
        expected = run.action(run.observations(size))
        assert actions[str(size)].shape == (size, 17)
        np.testing.assert_allclose(actions[str(size)], expected, rtol=0, atol=1e-6)


def test_with_tensorflow_alone(humanoid, tmp_path):
    np.savez(
        tmp_path / "observations.npz", **{str(size): humanoid.observations(size) for size in SIZES}
    )
    subprocess.run(
        [sys.executable, "-I", "-c", CLIENT, humanoid.export, "observations.npz", "actions.npz"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    with np.load(tmp_path / "actions.npz") as actions:
        assert_same_actions(humanoid, dict(actions))


def test_with_saved_model_cli(humanoid, tmp_path):
    observations = humanoid.observations(1000)
    np.save(tmp_path / "observations.npy", observations)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "tensorflow.python.tools.saved_model_cli",
            "run",
            "--dir",
            humanoid.export,
            "--tag_set",
            "serve",
            "--signature_def",
            "serving_default",
            "--inputs",
            "observation=observations.npy",
            "--outdir",
            ".",
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    np.testing.assert_allclose(
        np.load(tmp_path / "action.npy"), humanoid.action(observations), rtol=0, atol=1e-6
    )


@pytest.fixture(scope="module")
def c_program(tmp_path_factory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("there is no C compiler")
    program = tmp_path_factory.mktemp("c") / "serve_policy"
    libraries = Path(tf.sysconfig.get_lib())
    subprocess.run(
        [
            compiler,
            "-Wall",
            "-Werror",
            Path(__file__).parent.parent / "examples" / "serve_policy.c",
            "-o",
            program,
            f"-I{tf.sysconfig.get_include()}",
            libraries / "libtensorflow_cc.so.2",
            libraries / "libtensorflow_framework.so.2",
            f"-Wl,-rpath,{libraries}",
        ],
        check=True,
    )
    return program


def ask_c_program(
    program: Path, export: Path, width: int, batches: list[np.ndarray]
) -> subprocess.CompletedProcess:
    signature = serving_default(export)
    (input_op, _), (output_op, index) = (
        tensor.name.split(":")
        for tensor in (signature.inputs["observation"], signature.outputs["action"])
    )
    return subprocess.run(
        [program, export, input_op, output_op, index, str(width), *(str(len(b)) for b in batches)],
        input=b"".join(batch.tobytes() for batch in batches),
        capture_output=True,
    )


def serving_default(export: Path) -> SignatureDef:
    """The signature with the graph's own names of its tensors."""
    saved = SavedModel.FromString((export / "saved_model.pb").read_bytes())
    return saved.meta_graphs[0].signature_def["serving_default"]


def test_from_c(humanoid, c_program):
    done = ask_c_program(
        c_program, humanoid.export, 376, [humanoid.observations(size) for size in SIZES]
    )
    assert done.returncode == 0, done.stderr
    rows = np.frombuffer(done.stdout, np.float32).reshape(sum(SIZES), 17)
    assert_same_actions(
        humanoid, dict(zip(map(str, SIZES), np.split(rows, np.cumsum(SIZES)[:-1]), strict=True))
    )


@pytest.mark.parametrize(
    "observation, message",
    [
        (np.zeros([2, 375]), "[2,375] is not compatible with expected shape [?,376]"),
        (
            np.zeros([2, 1]),
            "[2,1] is not compatible with expected shape [?,376]",
        ),  # the normaliser would broadcast it
        (np.full([2, 376], np.nan), "observation must hold finite numbers : Tensor had NaN"),
    ],
)
def test_c_gets_an_error_for_bad_input(humanoid, c_program, observation, message):
    done = ask_c_program(
        c_program, humanoid.export, observation.shape[1], [observation.astype(np.float32)]
    )
    assert done.returncode == 1 and done.stdout == b""
    assert message in done.stderr.decode()


def test_the_readme_s_python_lines_run(humanoid):
    text = (humanoid.export / "README.md").read_text()
    code = text.split("## Python with TensorFlow")[1].split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", code + "print(action.numpy().tolist())"],
        cwd=humanoid.export.parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    action = np.array(json.loads(done.stdout))
    start = np.round(humanoid.env.reset(seed=0).astype(np.float64), 3).astype(np.float32)
    np.testing.assert_allclose(action, humanoid.action(start[None]), rtol=0, atol=1e-6)
