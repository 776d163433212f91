"""An environment put back where it was goes on bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from scripted_env import Scripted

from virel_tf.envs import Environment, make_env
from virel_tf.envs.state import foreign_parts
from virel_tf.errors import RunError


def play(env, actions):
    """All numbers of a run, and how many episodes ended in it.

    A new episode starts whenever one ends.
    """
    numbers, ended = [], 0
    for action in actions:
        step = env.step(action)
        numbers += [step.observation, [step.reward, step.terminated, step.truncated]]
        if step.terminated or step.truncated:
            ended += 1
            numbers.append(env.reset())
    return np.concatenate(numbers), ended


def interrupted(env_id):
    """A state in the middle of a run, the actions after it, and the numbers they gave."""
    env = make_env(env_id, path_length=50)
    random = np.random.default_rng(3)
    actions = random.uniform(-1, 1, (70, env.action_size)).astype(np.float32)
    env.reset(seed=5)
    play(env, actions[:30])
    assert env.foreign_state == []
    state = env.get_state()
    numbers, ended = play(env, actions[30:])
    # Without a reset, whether the random generator was restored would not show.
    assert ended > 0
    return state, actions[30:], numbers


@pytest.mark.parametrize(
    "env_id", ["HalfCheetah-v4", "Humanoid-v4", "Ant-v5", "Hopper-v4", "Pendulum-v1"]
)
def test_restored_environment_goes_on_bit_for_bit(env_id):
    state, actions, numbers = interrupted(env_id)
    fresh = make_env(env_id, path_length=50)
    fresh.set_state(state)
    assert np.array_equal(play(fresh, actions)[0], numbers)
    # Again, from a state that is not fresh.
    fresh.set_state(state)
    assert np.array_equal(play(fresh, actions)[0], numbers)


RESUME = """
import sys
from pathlib import Path
import numpy as np
from test_env_state import make_env, play

folder = Path(sys.argv[1])
env = make_env("Humanoid-v4", path_length=50)
env.set_state((folder / "state").read_bytes())
np.save(folder / "numbers.npy", play(env, np.load(folder / "actions.npy"))[0])
"""


def test_restored_in_another_process(tmp_path):
    state, actions, numbers = interrupted("Humanoid-v4")
    (tmp_path / "state").write_bytes(state)
    np.save(tmp_path / "actions.npy", actions)
    subprocess.run(
        [sys.executable, "-c", RESUME, str(tmp_path)],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])},
    )
    assert np.array_equal(np.load(tmp_path / "numbers.npy"), numbers)


def test_state_from_before_the_first_reset():
    env = make_env("Hopper-v4")
    state = env.get_state()
    env.reset(seed=0)
    env.set_state(state)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(3))


class Engine:
    """Stands for a handle whose inside cannot be seen."""


def test_foreign_parts_are_named_and_left_alone():
    def with_engine():
        env = Scripted([np.zeros(1)])
        env.engine, env.parts, env.callback = Engine(), [1, Engine()], play
        env.view = gymnasium.make("Pendulum-v1")
        return env

    first, second = with_engine(), with_engine()
    assert foreign_parts(gymnasium.wrappers.TimeLimit(first, 5)) == [
        "Scripted.engine",
        "Scripted.parts",
        "Scripted.view",
    ]
    kept = second.engine
    first.count = 7
    Environment(second).set_state(Environment(first).get_state())
    assert second.engine is kept and second.count == 7


def test_attributes_shared_and_attributes_not_there():
    first, second = Scripted([np.zeros(1)]), Scripted([np.zeros(1)])
    first.memory = first.alias = [1, 2]
    second.later = 3
    Environment(second).set_state(Environment(first).get_state())
    assert second.memory == [1, 2] and second.alias is second.memory
    assert not hasattr(second, "later")


def test_view_into_the_simulation_stays_one():
    def with_view():
        env = gymnasium.make("InvertedPendulum-v5", disable_env_checker=True)
        env.unwrapped.view = env.unwrapped.data.qpos[:1]
        env.reset(seed=1)
        return env

    first, second = with_view(), with_view()
    assert foreign_parts(first) == ["InvertedPendulumEnv.view"]
    first.unwrapped.data.qpos[0] = 0.125
    Environment(second).set_state(Environment(first).get_state())
    assert second.unwrapped.view[0] == 0.125


def test_damaged_state_is_one_line():
    env = make_env("Hopper-v4")
    env.reset(seed=0)
    state = env.get_state()
    for damaged in (b"", state[:-100], state[:200] + b"\0" * 50 + state[250:]):
        with pytest.raises(RunError) as caught:
            env.set_state(damaged)
        assert "\n" not in str(caught.value)


def test_state_of_another_environment():
    state = make_env("Pendulum-v1").get_state()
    with pytest.raises(
        RunError, match="^the saved state belongs to another environment: .*PendulumEnv.*HopperEnv"
    ):
        make_env("Hopper-v4").set_state(state)


def test_state_of_another_model(tmp_path):
    small = tmp_path / "small.xml"
    small.write_text(
        "<mujoco><worldbody><body><joint name='slider' type='slide' axis='1 0 0'/>"
        "<joint name='hinge'/><geom size='1'/></body></worldbody>"
        "<actuator><motor joint='slider' ctrlrange='-1 1'/></actuator></mujoco>"
    )
    other = gymnasium.make("InvertedPendulum-v5", xml_file=str(small), disable_env_checker=True)
    with pytest.raises(
        RunError, match="^the saved state does not fit the environment's MuJoCo model$"
    ):
        make_env("InvertedPendulum-v5").set_state(Environment(other).get_state())
