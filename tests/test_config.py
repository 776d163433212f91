"""Settings and presets.

What is allowed, what a table's file changes, and for which environments.
"""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from virel_tf.algorithms import RECIPES
from virel_tf.cli import parse_config, program
from virel_tf.cli.commands import COMMANDS
from virel_tf.config import Config
from virel_tf.errors import ConfigError
from virel_tf.options import check_value
from virel_tf.presets import preset_names, preset_tables, preset_values

FIELDS = {field.name: field for field in dataclasses.fields(Config)}
# Every environment that a preset or the results speak of, and some that none does.
ENVS = [
    *(
        f"{family}-v4"
        for family in (
            "Ant",
            "HalfCheetah",
            "Hopper",
            "Humanoid",
            "HumanoidStandup",
            "InvertedDoublePendulum",
            "InvertedPendulum",
            "Pusher",
            "Reacher",
            "Swimmer",
            "Walker2d",
        )
    ),
    "Humanoid-v5",
    "Pendulum-v1",
    "virel_tf/Echo-v0",
]


def test_every_default_is_allowed():
    for field in FIELDS.values():
        check_value(field, field.default)


@pytest.mark.parametrize(
    "name, value",
    [
        ("seed", -1),
        ("seed", 1.5),
        ("seed", True),
        ("seed", "1"),
        ("total_steps", 0),
        ("total_steps", 10**400),
        ("discount", 1.1),
        ("tau", 0.0),
        ("tau", float("nan")),
        ("reward_scale", float("inf")),
        ("epsilon_samples", 0),
        ("variant", "dqn"),
        ("variant", ""),
        ("xla", 1),
        ("env", ""),
        ("env", None),
        ("env", []),
        ("variant", []),
        ("variant", None),
        ("preset", []),
        ("preset", "papers"),
    ],
)
def test_a_value_that_is_not_allowed_is_named(name, value):
    with pytest.raises(ConfigError, match="must be") as caught:
        Config(**{name: value})
    assert caught.value.setting == name
    assert str(caught.value).startswith(f"{name}: ")


def test_whole_numbers_become_floats_where_a_number_is_meant():
    config = Config(reward_scale=5)
    assert config.reward_scale == 5.0 and isinstance(config.reward_scale, float)


def test_a_near_miss_gets_a_hint_and_a_far_one_none():
    with pytest.raises(ConfigError, match=r"\(did you mean beta\?\)$"):
        Config(variant="Bta")
    with pytest.raises(ConfigError, match="one of virel, beta, .*redq$"):
        Config(variant="dqn")


@pytest.mark.parametrize(
    "settings, name, other",
    [
        (dict(steps_per_iteration=20, num_envs=3), "num_envs", "steps_per_iteration"),
        (dict(replay_size=100, batch_size=128), "replay_size", "batch_size"),
    ],
)
def test_settings_that_do_not_fit_together_name_both(settings, name, other):
    with pytest.raises(ConfigError, match=other) as caught:
        Config(**settings)
    assert caught.value.setting == name


def test_directory_is_told_by_the_run_unless_given():
    assert Config(env="ns/Hopper-v4", variant="virel", seed=3).directory.parts == (
        "runs",
        "ns_Hopper-v4",
        "virel",
        "seed3",
    )
    assert str(Config(run_dir="here").directory) == "here"


TABLE = [
    ("Humanoid", "lambda_beta", 4e-4),
    ("Hopper", "reward_scale", 5.0),
    ("HalfCheetah", "reward_scale", 5.0),
    ("Walker2d", "reward_scale", 3.0),
]


@pytest.mark.parametrize(
    "env", ["{}-v4", "{}-v5", "{}-v12", "{}", "mine/{}-v4", "module:{}-v4", "module:mine/{}-v4"]
)
@pytest.mark.parametrize("family, name, value", TABLE)
def test_preset_row_is_found_by_environment_of_any_version(env, family, name, value):
    env = env.format(family)
    plain = Config(env=env, preset="none")
    assert parse_config([f"--env={env}", "--preset=paper"]) == dataclasses.replace(
        plain, preset="paper", **{name: value}
    )


@pytest.mark.parametrize(
    "env", ["Ant-v4", "HumanoidStandup-v4", "Swimmer-v5", "InvertedPendulum-v4"]
)
def test_the_defaults_of_the_fields_are_the_paper_s_table_for_all_other_environments(env):
    config = parse_config([f"--env={env}", "--preset=paper"])
    assert config == dataclasses.replace(Config(env=env, preset="none"), preset="paper")
    assert (
        dict(
            eval_steps=1000,
            path_length=999,
            discount=0.99,
            batch_size=128,
            hidden=300,
            lambda_beta=4e-3,
            reward_scale=1.0,
            value_learning_rate=3e-4,
            policy_learning_rate=3e-4,
        ).items()
        <= dataclasses.asdict(config).items()
    )


@pytest.mark.parametrize("env", ["Hopper-v4", "Humanoid-v4", "Swimmer-v5", "virel_tf/NaN-v0"])
def test_the_default_preset_is_modern_with_the_same_networks_everywhere(env):
    config = parse_config([f"--env={env}"])
    assert config == Config(env=env, preset="modern")
    same = dataclasses.replace(config, env="Ant-v4", target_entropy=-1.0)
    assert same == Config(env="Ant-v4")
    assert config.target_entropy == (-0.5 if env == "Humanoid-v4" else -1.0)
    expected = dict(
        preset="modern",
        normalisation="batch",
        critics=2,
        bootstrap="self",
        policy_period=3,
        reward_scaling="return",
        eval_episodes=5,
    )
    assert expected.items() <= dataclasses.asdict(config).items()


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("variant", RECIPES)
def test_python_and_the_command_train_the_same_settings(monkeypatch, variant, preset):
    trained = []
    train = COMMANDS["train"]._replace(run=lambda config: trained.append(config) or 0)
    monkeypatch.setitem(COMMANDS, "train", train)
    monkeypatch.setattr(program, "import_tensorflow_quietly", lambda: None)
    for env in ENVS:
        config = Config(env=env, variant=variant, preset=preset)
        assert config == Config.from_preset(preset, env=env, variant=variant)
        assert program.main([f"--env={env}", f"--variant={variant}", f"--preset={preset}"]) == 0
        assert trained.pop() == config


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("env, variant", [("Hopper-v4", "beta"), ("Humanoid-v5", "sac")])
def test_what_is_given_replaces_the_preset_in_python_and_on_the_command_line(env, variant, preset):
    given = Config.from_preset(
        preset, env=env, variant=variant, reward_scale=1, batch_size=64, path_length=7
    )
    assert (given.reward_scale, given.batch_size, given.path_length) == (1.0, 64, 7)
    flags = [f"--env={env}", f"--variant={variant}", f"--preset={preset}"]
    flags += ["--reward_scale=1", "--batch_size=64", "--path_length=7"]
    assert given == parse_config(flags)


@pytest.mark.parametrize("variant", RECIPES)
@pytest.mark.parametrize("env", ["Hopper-v4", "InvertedPendulum-v4"])
def test_settings_without_a_preset_are_the_same_in_python_and_on_the_command_line(env, variant):
    config = Config(env=env, variant=variant)
    assert config == parse_config([f"--env={env}", f"--variant={variant}"])
    assert config == Config(env=env, variant=variant, preset="modern")


def test_preset_none_is_the_defaults():
    defaults = {field.name: field.default for field in FIELDS.values()}
    assert dataclasses.asdict(Config(preset="none")) == defaults | {"preset": "none"}
    assert preset_values("none", "Humanoid-v4", "beta") == {}
    assert parse_config(["--env=Humanoid-v4", "--preset=none"]) == Config(
        env="Humanoid-v4", preset="none"
    )


@pytest.mark.parametrize("preset", ["papers", None])  # None: from a damaged config.json
def test_a_preset_that_is_not_there_is_named(preset):
    with pytest.raises(ConfigError, match="haarnoja2018a, ") as caught:
        preset_values(preset, "Hopper-v4", "beta")
    assert caught.value.setting == "preset"


def test_values_of_a_variant_replace_those_of_the_environment_and_those_of_all():
    assert preset_values("modern", "Hopper-v4", "beta")["random_steps"] == 5000
    assert preset_values("modern", "InvertedPendulum-v4", "beta")["random_steps"] == 1000
    ddpg = preset_values("modern", "InvertedPendulum-v4", "ddpg")
    assert (ddpg["critics"], ddpg["eval_every"]) == (1, 1000)


def test_a_preset_may_have_rows_for_a_variant():
    learned, other = (
        parse_config([f"--variant={name}", "--preset=haarnoja2018b"]) for name in ("sac", "beta")
    )
    assert (learned.temperature, other.temperature) == ("learned", "variant")
    assert learned.hidden == other.hidden == 256


def test_beta_s_lambda_follows_the_scale_of_rewards():
    """lambda epsilon is in units of the reward, epsilon in those of its square.

    Lambda times scale is the same.
    """
    for env in ("HalfCheetah-v4", "Hopper-v4"):
        paper, plain = (
            parse_config([f"--env={env}", "--variant=beta", f"--preset={name}"])
            for name in ("paper", "tianshou")
        )
        assert (paper.reward_scale, plain.reward_scale) == (5, 1)
        assert paper.lambda_beta * paper.reward_scale == pytest.approx(
            plain.lambda_beta * plain.reward_scale
        )
        assert paper.alpha / paper.reward_scale == plain.alpha  # and so does virel's constant


def tables_of_presets() -> list:
    """Each table of a preset, with the values that hold before it."""
    defaults = {name: field.default for name, field in FIELDS.items()}
    tables = []
    for name, table in preset_tables().items():
        values = {key: value for key, value in table.items() if not isinstance(value, dict)}
        tables.append(pytest.param(values, defaults, id=name))
        for kind in ("environments", "variants"):
            for key, own in table.get(kind, {}).items():
                tables.append(pytest.param(own, defaults | values, id=f"{name}.{kind}.{key}"))
    return tables


@pytest.mark.parametrize("values, before", tables_of_presets())
def test_a_table_of_a_preset_sets_differences_only(values, before):
    assert [name for name, value in values.items() if value == before[name]] == []
    assert values.keys().isdisjoint({"env", "preset", "variant", "seed", "run_dir"})
    for name, value in values.items():
        check_value(FIELDS[name], value)
        assert type(value) is type(FIELDS[name].default)


def test_a_preset_has_tables_of_environments_and_of_variants_that_exist():
    for table in preset_tables().values():
        nested = {key for key, value in table.items() if isinstance(value, dict)}
        assert nested <= {"environments", "variants"}
        assert set(table.get("variants", {})) <= set(RECIPES)
        families = {env.partition("-")[0] for env in ENVS}
        assert set(table.get("environments", {})) <= families


@pytest.mark.parametrize("setting, text", [("tau", "tau: too large"), (None, "too large")])
def test_an_error_says_which_setting_without_dashes(setting, text):
    error = ConfigError(setting, "too large")
    assert (error.setting, error.message, str(error)) == (setting, "too large", text)
    assert str(pickle.loads(pickle.dumps(error))) == text  # a process may hand it to another
