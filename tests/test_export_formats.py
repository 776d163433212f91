"""LiteRT and ONNX files: the same actions as the SavedModel, and NaN where that would refuse."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import tensorflow as tf
from untrained_run import make_run

from virel_tf.envs import make_env
from virel_tf.errors import ConfigError, RunError
from virel_tf.evaluate.rollout import evaluate_policy
from virel_tf.export import lite
from virel_tf.export.command import export_run
from virel_tf.export.lite import run_lite
from virel_tf.export.onnx_format import onnx_files, run_onnx
from virel_tf.export.signatures import ServedPolicy
from virel_tf.networks.folding import without_batch_norm
from virel_tf.run_folder.paths import policy_path
from virel_tf.run_folder.policies import save_policy


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    """A policy that balances.

    Pushes against the pole's angle and its speed, through relu(x) - relu(-x).
    """
    run = make_run(
        tmp_path_factory.mktemp("lite") / "run",
        env="InvertedPendulum-v4",
        hidden=64,
        variant="ddpg",
        preset="paper",
    )
    feedback = np.array([0.3, 3.0, 0.6, 0.8])  # of position, angle and their speeds
    first = np.stack([feedback, -feedback] * 32, axis=1)  # [4, 64]
    # each sign to itself
    second = np.kron(np.random.default_rng(0).normal(1, 0.3, [32, 32]), np.eye(2)) / 32
    last = np.array([[1.0], [-1.0]] * 32) / 32
    values = first, np.zeros(64), second, np.zeros(64), last, np.zeros(1)
    for variable, value in zip(run.policy.trainable_variables, values, strict=True):
        variable.assign(value)
    save_policy(policy_path(run.folder, "best"), run.policy, 1000, run.critics.online)
    export_run(run.folder, format="litert")
    return run


def models(run) -> dict[str, bytes]:
    return {
        path.stem: path.read_bytes()
        for path in (run.folder / "litert" / "best" / "1").glob("*.tflite")
    }


@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
def test_float32_answers_as_the_training_policy(pendulum, rows):
    observation = pendulum.observations(rows)
    action = run_lite(models(pendulum)["policy"], observation)
    np.testing.assert_allclose(action, pendulum.action(observation), rtol=0, atol=1e-4)


def test_normalised_observations_and_scaled_actions(humanoid, tmp_path):
    result = export_run(humanoid.folder, format="litert", out=tmp_path)
    observation = humanoid.observations(100)
    for name, tolerance in (("policy", 1e-4), ("policy_int8", 0.1)):
        action = run_lite((tmp_path / "1" / f"{name}.tflite").read_bytes(), observation)
        np.testing.assert_allclose(action, humanoid.action(observation), rtol=0, atol=tolerance)
    sizes = [
        (tmp_path / "1" / f"{name}.tflite").stat().st_size for name in ("policy", "policy_int8")
    ]
    assert sizes[1] < 0.6 * sizes[0]
    metadata = json.loads((tmp_path / "1" / "metadata.json").read_text())
    assert metadata["largest_difference"]["policy.tflite"] < 1e-4 and result["path"] == str(
        tmp_path / "1"
    )


@pytest.mark.parametrize("name", ["policy", "policy_int8"])
def test_both_files_balance_the_pole(pendulum, name):
    interpreter = tf.lite.Interpreter(model_content=models(pendulum)[name])
    stored = {np.dtype(tensor["dtype"]) for tensor in interpreter.get_tensor_details()}
    assert (np.dtype(np.int8) in stored) == (name == "policy_int8")
    act = interpreter.get_signature_runner()
    env = make_env("InvertedPendulum-v4", raw_actions=True)
    played = evaluate_policy(
        lambda observation: act(observation=observation[None])["action"][0], env, 3, steps=2000
    )
    assert played.returns == [1000.0, 1000.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["policy", "policy_int8"])
def test_the_answer_to_what_is_not_a_number_is_not_a_number(pendulum, name, bad):
    observation = np.zeros([3, 4], np.float32)
    observation[1, 2] = bad
    action = run_lite(models(pendulum)[name], observation)
    assert np.isnan(action[1]).all()
    if name == "policy":  # with int8 weights, the batch may share one range
        assert np.isfinite(action[[0, 2]]).all()


SHAPES = [
    [2, 1],
    [4, 1],
    [2, 2],
    [2, 3],
    [2, 5],
    [4],
    [1, 2, 4],
]  # some of which arithmetic would broadcast or fold


@pytest.mark.parametrize(
    "preset, normalised", [("paper", True), ("paper", False), ("modern", False)]
)
def test_litert_refuses_another_width_or_rank(tmp_path, preset, normalised):
    run = make_run(
        tmp_path,
        env="InvertedPendulum-v4",
        variant="ddpg",
        preset=preset,
        normalise_observations=normalised,
    )
    model = lite.convert(ServedPolicy(without_batch_norm(run.policy), None, run.env, 1.0), [])
    assert run_lite(model, np.ones([2, 4], np.float32)).shape == (2, 1)
    for shape in SHAPES:
        with pytest.raises(RuntimeError, match="size_splits must sum|axis_value"):
            run_lite(model, np.ones(shape, np.float32))


def test_a_file_that_answers_otherwise_is_not_kept(pendulum, tmp_path, monkeypatch):
    monkeypatch.setattr(
        lite, "run_lite", lambda model, observation: np.full([len(observation), 1], np.nan)
    )
    with pytest.raises(
        RunError, match="policy.tflite: its actions differ from TensorFlow's by nan"
    ):
        export_run(pendulum.folder, format="litert", out=tmp_path / "lite")
    assert [path.name for path in (tmp_path / "lite").iterdir()] == [".lock"]


def test_onnx_answers_as_the_training_policy(humanoid, tmp_path):
    pytest.importorskip("tf2onnx")
    export_run(humanoid.folder, format="onnx", out=tmp_path)
    model = (tmp_path / "1" / "policy.onnx").read_bytes()
    for rows in (0, 1, 7, 100):
        observation = humanoid.observations(rows)
        action = run_onnx(model, observation)
        np.testing.assert_allclose(action, humanoid.action(observation), rtol=0, atol=1e-6)
    observation[3, 5] = np.inf
    assert np.isnan(run_onnx(model, observation)).all(axis=1).tolist() == [
        row == 3 for row in range(100)
    ]


@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_onnx_runtime_refuses_another_width_or_rank(tmp_path, preset):
    pytest.importorskip("tf2onnx")
    runtime = pytest.importorskip("onnxruntime")
    run = make_run(tmp_path, env="InvertedPendulum-v4", variant="ddpg", preset=preset)
    served = ServedPolicy(without_batch_norm(run.policy), None, run.env, 1.0)
    model = onnx_files(served)["policy.onnx"].content
    session = runtime.InferenceSession(model)
    observation = run.observations(7)
    (action,) = session.run(["action"], {"observation": observation})
    np.testing.assert_allclose(action, run.action(observation), rtol=0, atol=1e-4)
    for shape in SHAPES:
        with pytest.raises(
            runtime.capi.onnxruntime_pybind11_state.InvalidArgument, match="observation"
        ):
            session.run(["action"], {"observation": np.ones(shape, np.float32)})


def test_onnx_without_its_converter_names_what_is_missing(pendulum, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ConfigError, match="^format: onnx needs the package tf2onnx"):
        export_run(pendulum.folder, format="onnx", out=tmp_path / "onnx")
    assert [path.name for path in (tmp_path / "onnx").iterdir()] == [".lock"]
