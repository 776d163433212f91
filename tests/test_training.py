"""A run from the outside: what it writes, how it stops, how it goes on."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from trained_runs import assert_same_run, command, metrics, virel

from virel_tf import load_policy
from virel_tf.envs import make_env
from virel_tf.export.command import export_run
from virel_tf.networks.actor import Actor
from virel_tf.run_folder.lock import in_use, only_writer
from virel_tf.run_folder.policies import read_weights
from virel_tf.run_folder.restore import restore_critics, restore_policy
from virel_tf.run_folder.settings import read_run

TINY = [
    "--env=Hopper-v4",
    "--hidden=32",
    "--batch_size=32",
    "--random_steps=200",
    "--eval_every=500",
    "--eval_steps=100",
    "--checkpoint_every=400",
    "--replay_size=1000",
    "--epsilon_samples=600",
    "--threads=1",
]
SMALL = [*TINY, "--preset=paper"]
MODERN = [*TINY, "--preset=modern", "--eval_episodes=2", "--policy_averaging=400"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    virel(*SMALL, "--total_steps=2000", f"--run_dir={folder}")
    return folder


@pytest.fixture(scope="module")
def modern(tmp_path_factory) -> Path:
    """The parts of the modern preset, all at once.

    Batch normalisation, no target network, rewards divided by the deviation of the return, an
    averaged policy.
    """
    folder = tmp_path_factory.mktemp("modern") / "whole"
    virel(*MODERN, "--total_steps=2000", f"--run_dir={folder}")
    return folder


def test_a_run_leaves_what_a_user_expects(uninterrupted):
    # the paper's row for Hopper
    assert json.loads((uninterrupted / "config.json").read_text())["reward_scale"] == 5.0
    assert [row["step"] for row in metrics(uninterrupted)] == ["500", "1000", "1500", "2000"]
    assert [
        part["from_step"] for part in json.loads((uninterrupted / "versions.json").read_text())
    ] == [0]
    assert (uninterrupted / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert (uninterrupted / "policies" / "best.npz").is_file() and (
        uninterrupted / "policies" / "last.npz"
    ).is_file()
    assert list((uninterrupted / "tensorboard").glob("events*"))
    assert len(list((uninterrupted / "checkpoints").glob("step-*"))) == 2
    for which in ("best", "last"):
        assert (uninterrupted / "saved_model" / which / "1" / "saved_model.pb").is_file()


def test_a_run_exports_the_policies_it_saved(uninterrupted):
    observation = np.random.default_rng(0).normal(size=[100, 11]).astype(np.float32)
    for which, step in (("best", None), ("last", 2000)):
        with np.load(uninterrupted / "policies" / f"{which}.npz") as saved:
            x = observation
            for layer in ("hidden/dense0", "hidden/dense1"):
                x = np.maximum(
                    x @ saved[f"policy/{layer}/kernel"] + saved[f"policy/{layer}/bias"], 0
                )
            loc = (x @ saved["policy/output/kernel"] + saved["policy/output/bias"])[:, :3]
            assert step in (None, int(saved["step"]))
        policy = load_policy(uninterrupted / "saved_model" / which)
        np.testing.assert_allclose(policy(observation), np.tanh(loc), rtol=0, atol=1e-6)
        row = next(
            row for row in metrics(uninterrupted) if int(row["step"]) == policy.metadata["step"]
        )
        assert float(row["eval_return"]) == policy.metadata["return"]


def batch_normalised(saved: dict[str, np.ndarray], layer: str, x: np.ndarray) -> np.ndarray:
    """By the running statistics, in float64."""
    x = (x - saved[f"policy/{layer}/mean"].astype(np.float64)) / np.sqrt(
        saved[f"policy/{layer}/variance"] + 1e-3
    )
    if f"policy/{layer}/scale" not in saved:  # the input's
        return x
    return x * saved[f"policy/{layer}/scale"] + saved[f"policy/{layer}/offset"]


def seen_observations(env: str, steps: int) -> np.ndarray:
    """What random actions lead to."""
    env = gymnasium.make(env)
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    seen = []
    for _ in range(steps):
        seen.append(observation)
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            observation, _ = env.reset()
    env.close()
    return np.array(seen, np.float32)


def test_a_batch_normalised_run_exports_the_policies_it_saved(modern):
    observation = seen_observations("Hopper-v4", 100)
    for which in ("best", "last"):
        with np.load(modern / "policies" / f"{which}.npz") as file:
            saved = dict(file)
        # The mean is of folded weights, which hold the statistics.
        assert not np.any(saved["policy/hidden/input_norm/mean"])
        x = batch_normalised(saved, "hidden/input_norm", observation)
        for i in range(2):
            kernel, bias = (saved[f"policy/hidden/dense{i}/{name}"] for name in ("kernel", "bias"))
            x = batch_normalised(saved, f"hidden/norm{i}", np.maximum(x @ kernel + bias, 0))
        loc = (x @ saved["policy/output/kernel"] + saved["policy/output/bias"])[:, :3]
        action = load_policy(modern / "saved_model" / which)(observation)
        # float32 loses a digit in k x + c where the mean is many deviations from 0.
        np.testing.assert_allclose(action, np.tanh(loc), rtol=0, atol=1e-5)
        config = read_run(modern)
        policy = restore_policy(config, make_env(config.env), read_weights(modern, which))
        np.testing.assert_allclose(action, policy.mean_action(observation), rtol=0, atol=1e-6)
        # NumPy adds up in another order: of 300 numbers one differs by 1.2e-6.
        np.testing.assert_allclose(
            action, Actor(policy).mean_action(observation), rtol=0, atol=2e-6
        )


@pytest.mark.parametrize("which", ["best", "last", "2000"])
def test_the_values_a_run_exports_are_in_the_environment_s_rewards(modern, which):
    if which.isdecimal():
        export_run(modern, which)
    config, weights = read_run(modern), read_weights(modern, which)
    assert (config.reward_scaling, config.reward_scale) == ("return", 1.0)
    assert abs(weights.reward_divisor - 1) > 0.1
    env = make_env(config.env)
    critics = restore_critics(config, env, weights)
    random = np.random.default_rng(0)
    observation = random.normal(size=[100, 11]).astype(np.float32)
    action = random.uniform(-1, 1, [100, 3]).astype(np.float32)
    name = f"step{which}" if which.isdecimal() else which
    model = tf.saved_model.load(modern / "saved_model" / name / "1")
    q = model.signatures["value"](observation=tf.constant(observation), action=tf.constant(action))[
        "q"
    ]
    least = np.min([q(observation, action).numpy() for q in critics.qs], axis=0)
    np.testing.assert_allclose(q, least * weights.reward_divisor, rtol=1e-4, atol=1e-4)
    if which != "best":
        state = max((modern / "checkpoints").glob("step-*")) / "state.npz"
        deviation = float(np.load(state)["learner/reward_divisor"])
        assert weights.reward_divisor == pytest.approx(deviation)


def test_the_policy_of_any_kept_checkpoint_can_be_exported(uninterrupted):
    for step in (1600, 2000):
        path = uninterrupted / "saved_model" / f"step{step}" / "1"
        assert export_run(uninterrupted, str(step))["path"] == str(path)
        assert f"the policy of step {step}\n" in (path / "README.md").read_text()
    folder = uninterrupted / "saved_model"
    earlier, newest, last = (
        load_policy(folder / name).metadata for name in ("step1600", "step2000", "last")
    )
    assert (earlier["policy"], earlier["step"], newest["step"]) == ("1600", 1600, 2000)
    assert newest["fingerprint"] == last["fingerprint"] != earlier["fingerprint"]
    assert newest["signatures"] == last["signatures"]
    served = re.findall('name: "([^"]+)"', (folder / "models.config").read_text())
    assert served == ["best", "last", "step1600", "step2000"]


def test_a_step_that_is_not_kept_is_told_with_those_that_are(uninterrupted):
    done = virel("export", f"--run_dir={uninterrupted}", "--policy=1200", code=2)
    assert done.stderr.count("\n") == 1 and "--policy: " in done.stderr
    assert "no checkpoint of step 1200; it must be one of best, last, 1600, 2000" in done.stderr


def test_evaluate_prints_one_json_line(uninterrupted):
    done = virel("evaluate", f"--run_dir={uninterrupted}", "--episodes=2", "--policy=last")
    result = json.loads(done.stdout)
    assert result["step"] == 2000 and len(result["returns"]) == 2


def test_resumed_after_the_end_of_its_steps_equals_uninterrupted(uninterrupted, tmp_path):
    virel(*SMALL, "--total_steps=900", f"--run_dir={tmp_path}")
    virel(*SMALL, "--total_steps=2000", f"--run_dir={tmp_path}")
    assert_same_run(uninterrupted, tmp_path)
    last = tmp_path / "saved_model" / "last"
    assert [load_policy(last / version).metadata["step"] for version in ("1", "2")] == [900, 2000]
    before = sorted(tmp_path.glob("saved_model/*/[0-9]*"))
    # nothing left to do, so nothing new to export
    virel(*SMALL, "--total_steps=2000", f"--run_dir={tmp_path}")
    assert sorted(tmp_path.glob("saved_model/*/[0-9]*")) == before


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_saves_and_the_same_command_goes_on(uninterrupted, tmp_path, number, code):
    flags = command(*SMALL, "--total_steps=2000", f"--run_dir={tmp_path}")
    process = subprocess.Popen(flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(tmp_path / "metrics.csv", rows=1)
    process.send_signal(number)
    out, error = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in error) == (code, False), error
    assert "run the same command to resume" in out
    virel(*flags[3:])
    assert_same_run(uninterrupted, tmp_path)


@pytest.mark.parametrize("whole, settings", [("uninterrupted", SMALL), ("modern", MODERN)])
def test_kill_9_loses_nothing_that_was_checkpointed(request, tmp_path, whole, settings):
    whole = request.getfixturevalue(whole)
    flags = command(*settings, "--total_steps=2000", f"--run_dir={tmp_path}")
    for rows in (1, 3):
        process = subprocess.Popen(flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(tmp_path / "metrics.csv", rows)
        process.kill()
        process.wait()
    virel(*flags[3:])
    assert_same_run(whole, tmp_path)


def wait_for(path: Path, rows: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().count("\n") > rows:
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} never had {rows} rows")


def test_several_environments_resume_bitwise_too(tmp_path):
    flags = [
        *SMALL,
        "--num_envs=2",
        "--normalise_observations",
        "--lambda_rule=rewards",
        "--env=Pendulum-v1",
    ]
    virel(*flags, "--total_steps=1200", f"--run_dir={tmp_path / 'whole'}")
    virel(*flags, "--total_steps=700", f"--run_dir={tmp_path / 'parts'}")
    virel(*flags, "--total_steps=1200", f"--run_dir={tmp_path / 'parts'}")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_changed_configuration_is_refused_and_shown(uninterrupted):
    done = virel(*SMALL, "--total_steps=2000", "--tau=0.1", f"--run_dir={uninterrupted}", code=2)
    assert "tau: 0.005 -> 0.1" in done.stderr and "Traceback" not in done.stderr


def test_resume_never_refuses_to_overwrite(uninterrupted):
    before = metrics(uninterrupted)
    done = virel(
        *SMALL, "--total_steps=2000", "--resume=never", f"--run_dir={uninterrupted}", code=2
    )
    assert "--resume" in done.stderr and str(uninterrupted) in done.stderr
    assert metrics(uninterrupted) == before


def test_a_damaged_newest_checkpoint_falls_back(uninterrupted, tmp_path):
    virel(*SMALL, "--total_steps=1200", f"--run_dir={tmp_path}")
    newest = max((tmp_path / "checkpoints").glob("step-*")) / "state.npz"
    newest.write_bytes(newest.read_bytes()[:-100])
    done = virel(*SMALL, "--total_steps=2000", f"--run_dir={tmp_path}")
    assert "state.npz" in done.stderr and "resuming from step 800" in done.stderr
    assert_same_run(uninterrupted, tmp_path)


def test_what_a_kill_after_the_last_checkpoint_left_out_is_made_good(uninterrupted, tmp_path):
    run = shutil.copytree(uninterrupted, tmp_path / "run")
    shutil.copy(run / "policies" / "best.npz", run / "policies" / "last.npz")
    (run / "learning_curve.png").unlink()
    virel(*SMALL, "--total_steps=2000", f"--run_dir={run}")
    with (
        np.load(run / "policies" / "last.npz") as ours,
        np.load(uninterrupted / "policies" / "last.npz") as whole,
    ):
        assert int(ours["step"]) == 2000
        for name in whole.files:
            np.testing.assert_array_equal(ours[name], whole[name], err_msg=name)
    assert (run / "learning_curve.png").is_file()


def test_a_run_without_its_checkpoints_is_not_begun_anew_over_what_is_left(uninterrupted, tmp_path):
    run = shutil.copytree(uninterrupted, tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    told = virel(*SMALL, "--total_steps=2000", f"--run_dir={run}", code=1).stderr
    assert f"{run} holds a run" in told and "checkpoints" in told and "Traceback" not in told
    assert metrics(run) == metrics(uninterrupted)


@pytest.mark.parametrize(
    "env, name", [("virel_tf/NaN-v0", "observation"), ("virel_tf/NaNReward-v0", "reward")]
)
def test_bad_numbers_from_the_environment_stop_the_run(tmp_path, env, name):
    done = virel(*SMALL, f"--env={env}", "--total_steps=2000", f"--run_dir={tmp_path}", code=1)
    assert f"the environment's {name} is not finite" in done.stderr and "step 4" in done.stderr
    assert "last good checkpoint: none yet" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("in_the_way", [False, True])
def test_a_run_that_ends_on_a_bad_number_exports_what_it_has(tmp_path, in_the_way):
    if in_the_way:
        (tmp_path / "saved_model").write_text("a file where the exports go")
    done = virel(
        *SMALL,
        "--env=virel_tf/NaN-v0",
        "--eval_every=20",
        "--eval_steps=1",
        "--checkpoint_every=20",
        "--total_steps=2000",
        f"--run_dir={tmp_path}",
        code=1,
    )
    assert "observation is not finite" in done.stderr and "step-000000040" in done.stderr
    assert ("its policies were not exported: cannot write to" in done.stderr) == in_the_way
    assert "Traceback" not in done.stderr
    if not in_the_way:
        steps = {
            which: load_policy(tmp_path / "saved_model" / which).metadata["step"]
            for which in ("best", "last")
        }
        assert steps == {"best": 20, "last": 40}


def test_a_diverging_loss_stops_the_run_and_is_not_saved(tmp_path):
    done = virel(
        *SMALL,
        "--env=Pendulum-v1",
        "--reward_scale=1e30",
        "--total_steps=2000",
        f"--run_dir={tmp_path}",
        code=1,
    )
    assert "q_loss became inf" in done.stderr and "Traceback" not in done.stderr
    assert not list((tmp_path / "checkpoints").glob("step-*"))


def test_a_folder_in_use_is_refused(tmp_path):
    flags = command(*SMALL, "--total_steps=100000", f"--run_dir={tmp_path}")
    process = subprocess.Popen(flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(tmp_path / "metrics.csv", rows=0)
        done = virel(*flags[3:], code=1)
        assert "another process" in done.stderr
    finally:
        process.kill()
        process.wait()


def test_a_file_in_the_way_is_a_clear_error(tmp_path):
    (tmp_path / "taken").write_text("")
    done = virel(*SMALL, "--total_steps=100", f"--run_dir={tmp_path / 'taken' / 'run'}", code=1)
    assert (
        "taken" in done.stderr and "Traceback" not in done.stderr and done.stderr.count("\n") == 1
    )


def test_environments_that_cannot_be_used_are_named(tmp_path):
    done = virel("--env=CartPole-v1", f"--run_dir={tmp_path / 'run'}", code=2)
    assert "--env" in done.stderr and "Box" in done.stderr and not list(tmp_path.iterdir())


def test_a_short_look_at_the_lock_does_not_keep_training_out(tmp_path, monkeypatch):
    """An experiment looks whether a folder is in use by taking its lock for a moment, shared."""
    look = open(tmp_path / ".lock", "w")
    fcntl.flock(look, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda seconds: look.close())
    with only_writer(tmp_path):
        assert in_use(tmp_path)
    assert not in_use(tmp_path)
