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
    shown = explicit_settings(settings)
    return shlex.join(
        ["virel-tf", *(f"--{name}={flag_text(value)}" for name, value in shown.items())]
    )


def explicit_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings from which `expand_settings` makes all."""
    shown = {name: settings[name] for name in ALWAYS_SHOWN if name in settings}
    return shown | non_default_settings(settings)


def expand_settings(explicit: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `explicit_settings`; ConfigError where env, variant or seed is missing."""
    lacking = lacking_identity(explicit)
    if lacking:
        raise ConfigError(None, f"no {', '.join(lacking)}")
    preset = explicit.get("preset", Config.preset)
    return preset_settings(preset, explicit["env"], explicit["variant"]) | explicit


def non_default_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from the preset's values and the defaults.

    Where this version does not have the preset, all that differ from the defaults.
    """
    settings = dict(settings)
    env, variant = settings["env"], settings["variant"]
    try:
        defaults = preset_settings(settings.get("preset", "none"), env, variant)
    except ConfigError:
        settings["preset"] = "none"
        defaults = preset_settings("none", env, variant)
    return {
        name: value
        for name, value in settings.items()
        if name not in defaults or defaults[name] != value
    }


@functools.cache
def preset_settings(preset: str, env: str, variant: str) -> dict[str, Any]:
    """Every setting as the preset, named or the default one, leaves it."""
    return {field.name: field.default for field in dataclasses.fields(Config)} | preset_values(
        preset, env, variant
    )


def flag_text(value: Any) -> str:
    """A value as the command line reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
