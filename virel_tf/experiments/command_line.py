"""The command behind a run, read off its settings: the inverse of `cli.parse_config`."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from typing import Any

from virel_tf.config import Config
from virel_tf.errors import ConfigError
from virel_tf.presets import preset_values
from virel_tf.run_folder.identity import lacking_identity

ALWAYS_SHOWN = ("env", "variant", "seed", "total_steps")


def command_of(settings: dict[str, Any]) -> str:
    """What to type to get a run with these settings."""
    told = told_settings(settings)
    return shlex.join(
        ["virel-tf", *(f"--{name}={flag_text(value)}" for name, value in told.items())]
    )


def told_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings from which `all_settings` makes all."""
    return {name: settings[name] for name in ALWAYS_SHOWN if name in settings} | own_settings(
        settings
    )


def all_settings(told: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `told_settings`; ConfigError where they are none."""
    lacking = lacking_identity(told)
    if lacking:
        raise ConfigError(None, f"no {', '.join(lacking)}")
    return preset_settings(told.get("preset", Config.preset), told["env"], told["variant"]) | told


def own_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that somebody chose: those that neither the defaults nor the preset give.

    A preset that this version does not have stands for itself no longer, so all that differs from
    the defaults is told.
    """
    own = dict(settings)
    try:
        given = preset_settings(own.get("preset", "none"), own["env"], own["variant"])
    except ConfigError:
        own["preset"] = "none"
        given = preset_settings("none", own["env"], own["variant"])
    return {name: value for name, value in own.items() if name not in given or given[name] != value}


@functools.cache
def preset_settings(preset: str, env: str, variant: str) -> dict[str, Any]:
    """Every setting as the preset, named or the default one, leaves it."""
    return {field.name: field.default for field in dataclasses.fields(Config)} | preset_values(
        preset, env, variant
    )


def flag_text(value: Any) -> str:
    """A value as the command line reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
