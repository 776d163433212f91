"""What an export answers, and what it refuses.

Each signature against the networks it was made from.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow.python.framework import kernels
from untrained_run import UntrainedRun, make_run

from virel_tf.envs import Environment
from virel_tf.export.command import served_policy
from virel_tf.export.metadata import layout
from virel_tf.export.signatures import ServedPolicy
from virel_tf.networks.actor import Actor
from virel_tf.run_folder.policies import read_weights
from virel_tf.run_folder.restore import restore_critics


@pytest.fixture(scope="module")
def signatures(humanoid):
    model = tf.saved_model.load(humanoid.export)
    yield model.signatures  # the model keeps the variables alive


def served(run: UntrainedRun) -> ServedPolicy:
    """What `export_run` writes of the run."""
    return served_policy(run.config, run.env, read_weights(run.folder, "best"))


def ask(signature, **inputs) -> dict[str, np.ndarray]:
    return {
        name: value.numpy()
        for name, value in signature(
            **{name: tf.constant(value, tf.float32) for name, value in inputs.items()}
        ).items()
    }


def test_signatures_are_plain_tensors_with_names(humanoid, signatures):
    shapes = {
        name: (
            {
                key: spec.shape.as_list()
                for key, spec in function.structured_input_signature[1].items()
            },
            {key: spec.shape.as_list() for key, spec in function.structured_outputs.items()},
        )
        for name, function in signatures.items()
    }
    observation, action = {"observation": [None, 376]}, {"action": [None, 17]}
    value = {"q": [None], "v": [None]} if humanoid.config.preset == "paper" else {"q": [None]}
    assert shapes == {
        "serving_default": (observation, action),
        "sample": (observation | {"noise": [None, 17]}, action | {"log_prob": [None]}),
        "distribution": (observation, {"loc": [None, 17], "scale": [None, 17]}),
        "value": (observation | action, value),
    }


@pytest.mark.parametrize("rows", [0, 1, 7, 1000, 4096])
def test_the_action_is_the_training_policy_s(humanoid, signatures, rows):
    observation = humanoid.observations(rows)
    action = ask(signatures["serving_default"], observation=observation)["action"]
    assert action.shape == (rows, 17) and action.dtype == np.float32
    np.testing.assert_allclose(action, humanoid.action(observation), rtol=0, atol=1e-6)


def test_the_action_is_the_actor_s_too(humanoid, signatures):
    observation = humanoid.observations(100)
    action = ask(signatures["serving_default"], observation=observation)["action"]
    acted = 0.4 * Actor(humanoid.policy).mean_action(observation)
    np.testing.assert_allclose(action, acted, rtol=0, atol=1e-6)


def test_the_statistics_of_batch_normalisation_matter(humanoid):
    """Else the tests here would pass with an export that left them out."""
    statistics = [
        variable
        for variable in humanoid.policy.non_trainable_variables
        if "normaliser" not in variable.path
    ]
    assert len(statistics) == (6 if humanoid.config.preset == "modern" else 0)
    observation = humanoid.observations(100)
    before, values = humanoid.action(observation), [variable.numpy() for variable in statistics]
    for variable in statistics:
        variable.assign(tf.fill(variable.shape, float("variance" in variable.path)))
    after = humanoid.action(observation)
    for variable, value in zip(statistics, values, strict=True):
        variable.assign(value)
    assert (np.abs(after - before).mean() > 0.01) == (humanoid.config.preset == "modern")


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_a_sample_is_the_noise_s_and_its_density_that_of_own_units(humanoid, signatures, rows):
    observation, noise = (
        humanoid.observations(rows),
        np.random.default_rng(1).normal(size=[rows, 17]),
    )
    loc, log_scale = humanoid.policy(humanoid.policy.normaliser(tf.constant(observation)))
    loc, scale = loc.numpy().astype(np.float64), np.exp(log_scale.numpy().astype(np.float64))
    before_tanh = loc + scale * noise
    gaussian = -(noise**2 + np.log(2 * np.pi)) / 2 - np.log(scale)
    density = gaussian + 2 * np.log(np.cosh(before_tanh)) - np.log(0.4)
    answer = ask(signatures["sample"], observation=observation, noise=noise)
    np.testing.assert_allclose(answer["action"], 0.4 * np.tanh(before_tanh), rtol=0, atol=1e-5)
    np.testing.assert_allclose(answer["log_prob"], density.sum(axis=1), rtol=1e-4, atol=1e-3)
    distribution = ask(signatures["distribution"], observation=observation)
    np.testing.assert_allclose(distribution["loc"], loc, rtol=0, atol=1e-5)
    np.testing.assert_allclose(distribution["scale"], scale, rtol=1e-5)


# With these seeds the Gaussian is narrow: no mass at the bounds.
@pytest.mark.parametrize("preset, seed", [("paper", 1), ("modern", 4)])
def test_densities_of_all_actions_add_up_to_one(tmp_path, preset, seed):
    # Its action is one number between -3 and 3.
    run = make_run(tmp_path, env="InvertedPendulum-v4", preset=preset, seed=seed)
    noise = np.linspace(-6, 6, 4001)[:, None]
    answer = ask(
        served(run).signatures()["sample"],
        noise=noise,
        observation=np.repeat(run.observations(1), len(noise), axis=0),
    )
    assert np.ptp(answer["action"]) > 1
    total = np.trapezoid(np.exp(answer["log_prob"]), answer["action"][:, 0])
    assert total == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_the_value_is_the_critics_in_the_environment_s_rewards(humanoid, signatures, rows):
    observation, action = (
        humanoid.observations(rows),
        np.random.default_rng(1).uniform(-1, 1, [rows, 17]),
    )
    normalised = humanoid.policy.normaliser(tf.constant(observation))
    answer = ask(signatures["value"], observation=observation, action=0.4 * action)
    qs = [q(normalised, tf.constant(action, tf.float32)) for q in humanoid.critics.qs]
    # Training's factor: 2.5, and with the modern preset's reward_scaling=return divided by 4.
    critics, factor = {"paper": (1, 2.5), "modern": (2, 2.5 / 4)}[humanoid.config.preset]
    assert len(qs) == critics
    np.testing.assert_allclose(answer["q"], np.min(qs, axis=0) / factor, rtol=1e-5, atol=1e-5)
    assert ("v" in answer) == bool(humanoid.critics.vs) == (humanoid.config.preset == "paper")
    for v in humanoid.critics.vs:
        np.testing.assert_allclose(answer["v"], v(normalised) / factor, rtol=1e-5, atol=1e-5)
    outside = ask(signatures["value"], observation=observation, action=np.full([rows, 17], 9.0))
    bound = ask(signatures["value"], observation=observation, action=np.full([rows, 17], 0.4))
    np.testing.assert_array_equal(outside["q"], bound["q"])


@pytest.mark.parametrize(
    "settings, names",
    [
        (dict(preset="none", variant="sac", normalisation="layer", activation="silu"), {"q"}),
        (dict(preset="none", variant="virel2", activation="elu"), {"q", "v"}),
        (dict(preset="none", variant="ddpg", activation="tanh"), {"q"}),
        (dict(preset="none", variant="virel2", normalisation="batch"), {"q", "v"}),
        (dict(variant="crossq", activation="elu"), {"q"}),
        (dict(variant="td3", activation="tanh"), {"q"}),
        (dict(variant="redq"), {"q"}),
    ],
)
def test_other_variants(tmp_path, settings, names):
    run = make_run(tmp_path, env="Hopper-v4", **settings)
    functions, observation = served(run).signatures(), run.observations(50)
    action = ask(functions["serving_default"], observation=observation)["action"]
    np.testing.assert_allclose(action, run.action(observation), rtol=0, atol=1e-6)
    answer = ask(functions["value"], observation=observation, action=action)
    qs = [q(tf.constant(observation), tf.constant(action)).numpy() for q in run.critics.qs]
    np.testing.assert_allclose(answer["q"], np.min(qs, axis=0), rtol=1e-5, atol=1e-5)
    assert set(answer) == names
    stochastic = settings["variant"] not in ("ddpg", "td3")
    assert ("sample" in functions, "distribution" in functions) == (stochastic, stochastic)


@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_networks_trained_in_bfloat16_answer_in_float32(tmp_path, preset):
    run = make_run(tmp_path, env="Hopper-v4", preset=preset, precision="mixed_bfloat16")
    observation = run.observations(100)
    tf.keras.config.set_dtype_policy("mixed_bfloat16")  # as a learner of this precision leaves it
    try:
        action = ask(served(run).signatures()["serving_default"], observation=observation)["action"]
    finally:
        tf.keras.config.set_dtype_policy("float32")
    np.testing.assert_allclose(action, run.action(observation), rtol=0, atol=1e-6)


def test_a_file_without_critics_has_no_value(tmp_path):
    run = make_run(tmp_path, env="Hopper-v4")
    weights = read_weights(run.folder, "best")
    for name in [name for name in weights.arrays if name.startswith("q0/")]:
        del weights.arrays[name]
    assert restore_critics(run.config, run.env, weights) is None
    assert "value" not in ServedPolicy(run.policy, None, run.env, 1.0).signatures()


class Odd(gymnasium.Env):
    """Observations in parts; actions in whole numbers, off centre, one of them fixed."""

    observation_space = spaces.Dict(
        {
            "speed": spaces.Box(-1, 1, (2,)),
            "mode": spaces.Discrete(3),
            "inner": spaces.Tuple([spaces.Box(-1, 1, (1, 2)), spaces.Box(0, 1, (1,))]),
        }
    )
    action_space = spaces.Box(np.array([-1, 0, 5]), np.array([9, 4, 5]), (3,), np.int32)


def test_the_layout_tells_where_each_part_of_an_observation_lies():
    sample = {
        "speed": np.array([1, 2], np.float32),
        "mode": 2,
        "inner": (np.array([[3, 4]], np.float32), np.array([5], np.float32)),
    }
    flat = spaces.flatten(Odd.observation_space, sample)
    parts = {
        entry["name"]: flat[entry["start"] : entry["stop"]].tolist()
        for entry in layout(Odd.observation_space)
    }
    assert parts == {"speed": [1, 2], "mode": [0, 0, 1], "inner/0": [3, 4], "inner/1": [5]}


def test_actions_in_whole_numbers_and_off_centre_bounds(tmp_path):
    env = Environment(Odd())
    run = make_run(tmp_path, env="Hopper-v4", preset="paper")  # eleven numbers in, three out
    policy = ServedPolicy(run.policy, run.critics, env, 1.0)
    policy.observation_size = 11
    functions, observation = policy.signatures(), run.observations(200)
    action = ask(functions["serving_default"], observation=observation)["action"]
    squashed = run.policy.mean_action(tf.constant(observation)).numpy()
    np.testing.assert_array_equal(action, np.rint([4, 2, 5] + np.array([5, 2, 0]) * squashed))
    assert np.ptp(action[:, 0]) > 5
    answer = ask(
        functions["value"],
        observation=observation,
        action=[4, 2, 5] + np.array([5, 2, 0]) * squashed,
    )
    inside = squashed * [1, 1, 0]  # a number that cannot vary is the middle one
    q = run.critics.qs[0](tf.constant(observation), tf.constant(inside, tf.float32))
    np.testing.assert_allclose(answer["q"], q, rtol=1e-4, atol=1e-4)


SIZES = {"observation": 376, "noise": 17, "action": 17}
INPUTS = {
    "serving_default": ["observation"],
    "sample": ["observation", "noise"],
    "distribution": ["observation"],
    "value": ["observation", "action"],
}


@pytest.mark.parametrize(
    "signature, bad", [(name, key) for name, keys in INPUTS.items() for key in keys]
)
@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda x: x[0], "is not compatible with expected shape"),
        (lambda x: x[None], "is not compatible with expected shape"),
        (lambda x: x[:, 1:], "is not compatible with expected shape"),
        (lambda x: x[:, :1], "is not compatible with expected shape"),  # would be broadcast
        (
            lambda x: np.where(np.arange(x.shape[1]) == 3, np.nan, x),
            "must hold finite numbers : Tensor had NaN",
        ),
        (
            lambda x: np.where(np.arange(x.shape[1]) == 3, -np.inf, x),
            "must hold finite numbers : Tensor had -?Inf",
        ),
    ],
)
def test_bad_input_is_an_error(signatures, signature, bad, spoil, message):
    inputs = {name: np.zeros([2, SIZES[name]], np.float32) for name in INPUTS[signature]}
    ask(signatures[signature], **inputs)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask(signatures[signature], **inputs | {bad: spoil(inputs[bad])})


@pytest.mark.parametrize("signature, other", [("sample", "noise"), ("value", "action")])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_inputs_of_different_numbers_of_rows_are_an_error(signatures, signature, other, rows):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"observation and {other} must have the same number"
    ):
        ask(signatures[signature], observation=np.zeros([2, 376]), **{other: np.zeros([rows, 17])})


def test_every_operation_is_a_standard_one_and_no_object_is_keras_own(humanoid):
    graph = SavedModel.FromString((humanoid.export / "saved_model.pb").read_bytes()).meta_graphs[0]
    nodes = [
        *graph.graph_def.node,
        *(node for function in graph.graph_def.library.function for node in function.node_def),
    ]
    functions = {function.signature.name for function in graph.graph_def.library.function}
    operations = {node.op for node in nodes} - functions
    assert "MatMul" in operations and not {op for op in operations if "PyFunc" in op}
    without = {
        op
        for op in operations
        if not any(  # DEFAULT: on every device
            kernel.device_type in ("CPU", "DEFAULT")
            for kernel in kernels.get_registered_kernels_for_op(op).kernel
        )
    }
    assert without == set()
    assert [node.device for node in nodes if node.device and "CPU" not in node.device] == []
    kinds = {
        node.user_object.identifier
        for node in graph.object_graph_def.nodes
        if node.HasField("user_object")
    }
    assert kinds <= {"_generic_user_object", "trackable_list_wrapper", "signature_map"}
