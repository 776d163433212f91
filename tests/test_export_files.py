"""Versions on disk: whole or not there, and never changed.

They have all that a server and a person look for.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from untrained_run import make_run

import virel_tf
from virel_tf.errors import ConfigError, RunError
from virel_tf.evaluate.command import evaluate_export, evaluate_run
from virel_tf.export import versions
from virel_tf.export.command import export_run
from virel_tf.export.versions import add_version, newest_version
from virel_tf.export.warmup import WARMUP_FILE, varint
from virel_tf.run_folder.metrics import evaluated_return
from virel_tf.run_folder.paths import policy_path
from virel_tf.run_folder.policies import save_policy


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    run = make_run(
        tmp_path_factory.mktemp("pendulum") / "run", env="InvertedPendulum-v4", variant="ddpg"
    )
    export_run(run.folder)
    return run


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def write_two_files(folder: Path) -> None:
    (folder / "one").write_text("1")
    (folder / "inner").mkdir()
    (folder / "inner" / "two").write_text("2")


def test_versions_count_up_and_stay(tmp_path):
    assert newest_version(tmp_path / "model") is None
    assert add_version(tmp_path / "model", write_two_files) == tmp_path / "model" / "1"
    (tmp_path / "model" / "41").mkdir()
    (tmp_path / "model" / "notes").mkdir()
    assert add_version(tmp_path / "model", write_two_files) == newest_version(tmp_path / "model")
    assert sorted(os.listdir(tmp_path / "model")) == [".lock", "1", "41", "42", "notes"]
    assert sorted(contents(tmp_path / "model" / "42")) == ["inner/two", "one"]


def test_a_version_that_fails_leaves_nothing(tmp_path):
    def fail(folder: Path) -> None:
        write_two_files(folder)
        raise OSError(28, "No space left on device")

    with pytest.raises(RunError, match="No space left"):
        add_version(tmp_path, fail)
    assert os.listdir(tmp_path) == [".lock"]


# bytes of a file: too few for the variables, and for the graph
@pytest.mark.parametrize("most", [4096, 6000])
def test_what_tensorflow_cannot_write_is_told_in_one_line(pendulum, tmp_path, most):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        with pytest.raises(RunError, match="^cannot write a version in .*/model: File too large$"):
            export_run(pendulum.folder, out=tmp_path / "model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path / "model") == [".lock"]


def test_a_version_is_seen_only_when_every_byte_is_on_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(versions, "sync_file", lambda path: synced.append(path.name))
    seen_while_writing = []

    def write(folder: Path) -> None:
        write_two_files(folder)
        seen_while_writing.append(newest_version(tmp_path))

    rename = os.rename
    monkeypatch.setattr(
        os, "rename", lambda source, target: (synced.append("rename"), rename(source, target))
    )
    add_version(tmp_path, write)
    assert seen_while_writing == [None]
    assert sorted(synced[:2]) == ["one", "two"] and synced[2:] == ["rename"]


def test_kill_9_while_writing_leaves_no_version_and_the_next_export_none_of_it(tmp_path):
    program = (
        "import os, sys, pathlib\nfrom virel_tf.export.versions import add_version\ndef"
        " write(folder):\n    (folder / 'saved_model.pb').write_text('half')\n   "
        " os.kill(os.getpid(), 9)\nadd_version(pathlib.Path(sys.argv[1]), write)"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert sorted(os.listdir(tmp_path)) == [".lock", ".tmp-1"] and newest_version(tmp_path) is None
    assert add_version(tmp_path, write_two_files).name == "1"
    assert sorted(os.listdir(tmp_path)) == [".lock", "1"]
    assert sorted(contents(tmp_path / "1")) == ["inner/two", "one"]


def test_what_is_unfinished_and_somebody_else_s_stays(tmp_path):
    (tmp_path / ".tmp-1").mkdir()
    (tmp_path / ".tmp-notes").mkdir()
    (tmp_path / ".tmp-film.mp4").touch()
    assert add_version(tmp_path, write_two_files).name == "1"
    assert sorted(os.listdir(tmp_path)) == [".lock", ".tmp-film.mp4", ".tmp-notes", "1"]


def test_two_at_once_become_two_versions(tmp_path):
    both = threading.Barrier(2)

    def export() -> None:
        both.wait()
        add_version(tmp_path, write_two_files)

    threads = [threading.Thread(target=export) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents(tmp_path / "1") == contents(tmp_path / "2") != {}


def test_only_a_changed_policy_is_a_new_version(pendulum, tmp_path):
    first = export_run(pendulum.folder, out=tmp_path / "model")
    assert (first["path"], first["new"]) == (str(tmp_path / "model" / "1"), True)
    before = contents(tmp_path / "model" / "1")
    again = export_run(pendulum.folder, out=tmp_path / "model")
    assert (again["path"], again["new"]) == (first["path"], False)

    other = make_run(tmp_path / "other", env="InvertedPendulum-v4", variant="ddpg", seed=2)
    second = export_run(other.folder, out=tmp_path / "model")
    assert (second["path"], second["new"]) == (str(tmp_path / "model" / "2"), True)
    assert 'tf.saved_model.load("model/2")' in (tmp_path / "model" / "2" / "README.md").read_text()
    assert contents(tmp_path / "model" / "1") == before
    observation = other.observations(5)
    np.testing.assert_allclose(
        virel_tf.load_policy(tmp_path / "model")(observation),
        other.action(observation),
        rtol=0,
        atol=3e-6,
    )


def test_another_policy_or_format_of_the_same_weights_is_a_new_version(tmp_path):
    run = make_run(tmp_path / "run", env="InvertedPendulum-v4", variant="ddpg")
    save_policy(policy_path(run.folder, "last"), run.policy, 1000, run.critics.online)
    asked = [
        ("best", "saved_model"),
        ("best", "litert"),
        ("best", "litert"),
        ("last", "litert"),
        ("best", "saved_model"),
    ]
    paths = [
        Path(export_run(run.folder, which, tmp_path / "model", format)["path"])
        for which, format in asked
    ]
    assert [path.name for path in paths] == ["1", "2", "2", "3", "4"]
    metadata = [json.loads((path / "metadata.json").read_text()) for path in paths]
    assert [(about["policy"], about["file_format"]) for about in metadata] == asked
    assert (paths[1] / "policy.tflite").is_file() and (paths[4] / "saved_model.pb").is_file()


def test_metadata_says_what_the_policy_is(humanoid):
    metadata = json.loads((humanoid.export / "metadata.json").read_text())
    expected = {
        "env": "Humanoid-v4",
        "variant": "beta",
        "policy": "best",
        "step": 1000,
        "return": 12.5,
        "seed": 1,
        "reward_scale": 2.5,
        "deterministic": False,
    }
    assert {key: metadata[key] for key in expected} == expected
    assert metadata["action"]["low"] == pytest.approx([-0.4] * 17) and metadata["action"][
        "shape"
    ] == [17]
    assert metadata["observation"]["layout"] == [
        {"name": "", "start": 0, "stop": 376, "space": str(humanoid.env.observation_space)}
    ]
    assert metadata["signatures"]["sample"]["outputs"] == {"action": [None, 17], "log_prob": [None]}
    assert metadata["versions"]["tensorflow"] == tf.__version__
    assert metadata["versions"]["virel_tf"] == virel_tf.__version__


@pytest.mark.parametrize(
    "end, expected", [("1000,12.5\n", 12.5), ("1000,12", None), ("1000", None), ("1000\n", None)]
)
def test_a_line_of_metrics_that_a_kill_cut_short_gives_no_return(tmp_path, end, expected):
    (tmp_path / "metrics.csv").write_text("step,eval_return\n500,3.0\n" + end)
    assert evaluated_return(tmp_path, 1000) == expected
    assert evaluated_return(tmp_path / "nowhere", 1000) is None


def test_the_server_s_configuration_lists_what_there_is(pendulum):
    path = pendulum.folder / "saved_model" / "models.config"
    best = '  config { name: "best" base_path: "/models/best" model_platform: "tensorflow" }\n'
    assert path.read_text() == "model_config_list {\n" + best + "}\n"
    save_policy(
        policy_path(pendulum.folder, "last"), pendulum.policy, 2000, pendulum.critics.online
    )
    assert export_run(pendulum.folder, "last")["return"] is None  # no evaluation at that step
    assert path.read_text() == "model_config_list {\n" + best + best.replace("best", "last") + "}\n"


def test_the_readme_s_calls_are_of_this_model(humanoid):
    text = (humanoid.export / "README.md").read_text()
    bodies = [
        json.loads(line.split("curl -d '")[1].split("'")[0])
        for line in text.splitlines()
        if "curl" in line
    ]
    assert [body["signature_name"] for body in bodies] == [
        "serving_default",
        "sample",
        "distribution",
        "value",
    ]
    model = tf.saved_model.load(humanoid.export)
    for body in bodies:
        model.signatures[body["signature_name"]](
            **{name: tf.constant(rows) for name, rows in body["inputs"].items()}
        )
    assert text.count("http://localhost:8501/v1/models/best:predict") == 4
    grpc = text.split("## gRPC")[1].split("```python\n")[1].split("```")[0]
    compile(grpc, "README.md", "exec")
    assert '"best", "serving_default"' in grpc


@pytest.mark.parametrize(
    "value, encoded",
    [
        (0, b"\0"),
        (1, b"\1"),
        (127, b"\x7f"),
        (128, b"\x80\1"),
        (300, b"\xac\2"),
        (16384, b"\x80\x80\1"),
    ],
)
def test_varint(value, encoded):
    assert varint(value) == encoded


def test_warm_up_requests_give_the_recorded_answers(humanoid):
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    records = [
        logs.PredictionLog.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(str(humanoid.export / WARMUP_FILE))
    ]
    model = tf.saved_model.load(humanoid.export)
    assert [log.predict_log.request.model_spec.signature_name for log in records] == list(
        model.signatures
    )
    for log in records:
        request, response = log.predict_log.request, log.predict_log.response
        assert request.model_spec.name == response.model_spec.name == "best"
        assert (
            not request.FindInitializationErrors() and log.WhichOneof("log_type") == "predict_log"
        )
        answer = model.signatures[request.model_spec.signature_name](
            **{
                name: tf.constant(tf.make_ndarray(tensor))
                for name, tensor in request.inputs.items()
            }
        )
        assert set(answer) == set(response.outputs)
        for name, tensor in response.outputs.items():
            np.testing.assert_allclose(
                tf.make_ndarray(tensor), answer[name].numpy(), rtol=0, atol=1e-6
            )


def test_load_policy_takes_one_observation_or_many(pendulum):
    policy = virel_tf.load_policy(pendulum.export)
    observations = pendulum.observations(3)
    np.testing.assert_allclose(
        policy(observations), pendulum.action(observations), rtol=0, atol=3e-6
    )
    one = policy(observations[0].tolist())
    assert one.shape == (1,)
    np.testing.assert_allclose(one, policy(observations)[0], rtol=0, atol=1e-6)
    assert policy.metadata["env"] == "InvertedPendulum-v4"


@pytest.mark.parametrize("path", ["", "saved_model", "policies", "nowhere"])
def test_load_policy_elsewhere_is_a_clear_error(pendulum, path):
    with pytest.raises(
        ConfigError,
        match="holds no exported policy; it must be a folder such as RUN/saved_model/best",
    ):
        virel_tf.load_policy(pendulum.folder / path)


def test_an_export_plays_as_the_run_it_came_from(pendulum):
    exported = evaluate_export(str(pendulum.folder / "saved_model" / "best"), episodes=3, seed=5)
    own = evaluate_run(str(pendulum.folder), "best", episodes=3, seed=5)
    assert exported["lengths"] == own["lengths"] and exported["returns"] == pytest.approx(
        own["returns"]
    )
    assert exported["policy"] == str(pendulum.export) and exported["step"] == own["step"] == 1000


def test_evaluating_what_is_no_export_names_the_flag(tmp_path):
    with pytest.raises(ConfigError, match="^policy: .* one of best, last$"):
        evaluate_export(str(tmp_path), episodes=1, seed=1)
