"""Settings and presets.

What is allowed, what a table's file changes, and for which environments.
"""

from __future__ import annotations

import dataclasses

import pytest

from virel_tf.algorithms import RECIPES
from virel_tf.cli import parse_config, read_flags
from virel_tf.config import Config, allowed, preset_files, presets_folder
from virel_tf.errors import ConfigError

FIELDS = {field.name: field for field in dataclasses.fields(Config)}
PRESET_FILES = sorted(presets_folder().glob("*/*.flags"))
PRESETS = sorted({path.parent.name for path in PRESET_FILES}) + ["none"]


def test_every_default_is_allowed_and_explained():
    Config()
    for field in FIELDS.values():
        assert field.metadata["group"] and field.metadata["help"] and allowed(field)


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
        ("epsilon_p", 0.5),
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
    with pytest.raises(ConfigError, match=f"^--{name}: .*must be"):
        Config(**{name: value})


def test_whole_numbers_become_floats_where_a_number_is_meant():
    config = Config(reward_scale=5)
    assert config.reward_scale == 5.0 and isinstance(config.reward_scale, float)


def test_a_near_miss_gets_a_hint_and_a_far_one_none():
    with pytest.raises(ConfigError, match=r"\(did you mean beta\?\)$"):
        Config(variant="Bta")
    with pytest.raises(ConfigError, match="one of virel, beta, .*redq$"):
        Config(variant="dqn")


@pytest.mark.parametrize(
    "settings, flag",
    [
        (dict(steps_per_iteration=20, num_envs=3), "--num_envs=3"),
        (dict(replay_size=100, batch_size=128), "--batch_size=128"),
    ],
)
def test_settings_that_do_not_fit_together_name_both(settings, flag):
    with pytest.raises(ConfigError, match=flag):
        Config(**settings)


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
def test_the_preset_is_modern_unless_told_and_the_same_in_every_environment(env):
    config = parse_config([f"--env={env}"])
    assert config == Config(env=env, preset="modern")
    assert dataclasses.replace(config, env="Ant-v4") == Config(env="Ant-v4")
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


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("variant", ["beta", "sac", "ddpg", "td3", "crossq", "redq"])
@pytest.mark.parametrize("env", ["Hopper-v4", "Humanoid-v5", "InvertedPendulum-v4"])
def test_settings_are_the_same_in_python_and_on_the_command_line(env, variant, preset):
    flags = [f"--env={env}", f"--variant={variant}", f"--preset={preset}"]
    assert Config(env=env, variant=variant, preset=preset) == parse_config(flags)
    given = Config(env=env, variant=variant, preset=preset, reward_scale=1, batch_size=64)
    assert given == parse_config([*flags, "--reward_scale=1", "--batch_size=64"])


@pytest.mark.parametrize("variant", RECIPES)
@pytest.mark.parametrize("env", ["Hopper-v4", "InvertedPendulum-v4"])
def test_settings_without_a_preset_are_the_same_in_python_and_on_the_command_line(env, variant):
    config = Config(env=env, variant=variant)
    assert config == parse_config([f"--env={env}", f"--variant={variant}"])
    assert config == Config(env=env, variant=variant, preset="modern")


def test_preset_none_is_the_defaults():
    defaults = {field.name: field.default for field in FIELDS.values()}
    assert dataclasses.asdict(Config(preset="none")) == defaults | {"preset": "none"}
    assert preset_files("none", "Humanoid-v4", "beta") == []
    assert parse_config(["--env=Humanoid-v4", "--preset=none"]) == Config(
        env="Humanoid-v4", preset="none"
    )


@pytest.mark.parametrize("preset", ["papers", None])  # None: from a damaged config.json
def test_a_preset_that_is_not_there_is_named(preset):
    with pytest.raises(
        ConfigError, match=f"--preset: {preset!r} is not allowed; it must be one of haarnoja2018a, "
    ):
        preset_files(preset, "Hopper-v4", "beta")


def test_rows_for_all_come_before_the_environment_s_own():
    assert [path.name for path in preset_files("paper", "Hopper-v4", "beta")] == [
        "all.flags",
        "Hopper.flags",
    ]


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


def preset_rows(path) -> dict:
    return read_flags(dataclasses.fields(Config), [f"--flagfile={path}"])


@pytest.mark.parametrize("path", PRESET_FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_preset_file_sets_differences_only_and_names_its_table(path):
    values = preset_rows(path)
    before = {name: field.default for name, field in FIELDS.items()}
    if path.name != "all.flags":  # which comes first, in the presets that have it
        before |= preset_rows(path.with_name("all.flags"))
    assert [name for name, value in values.items() if value == before[name]] == []
    assert values.keys().isdisjoint({"env", "preset", "seed", "run_dir"})
    assert "table" in path.read_text(encoding="utf-8").splitlines()[0]
