"""Presets: named tables of settings, read from configs/presets.toml."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import Any

from virel_tf.errors import ConfigError
from virel_tf.options import did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NO_PRESET = "none"  # the defaults of the fields, without a preset


def presets_file() -> Path:
    """The TOML file: inside an installed package, beside the package in a source tree."""
    package = Path(__file__).resolve().parent
    places = (package / "configs", package.parent / "configs")
    return next(place for place in places if place.is_dir()) / "presets.toml"


@functools.cache
def preset_tables() -> dict[str, dict[str, Any]]:
    """What the file holds, by preset."""
    return tomllib.loads(presets_file().read_text(encoding="utf-8"))


def preset_names() -> list[str]:
    """Every preset that ships, and none."""
    return [*sorted(preset_tables()), NO_PRESET]


def environment_family(env: str) -> str:
    """The name of an environment without its version and where it comes from.

    Hopper of Hopper-v4.
    """
    return re.sub(r"-v\d+$", "", env.rsplit("/", maxsplit=1)[-1].rsplit(":", maxsplit=1)[-1])


def preset_values(preset: str, env: str, variant: str) -> dict[str, Any]:
    """What a preset sets.

    Its values for all runs, then those for the environment, then those for the variant.
    """
    if preset not in preset_names():
        raise ConfigError(
            "preset",
            f"{preset!r} is not allowed; it must be one of {', '.join(preset_names())}"
            + did_you_mean(str(preset), preset_names()),
        )
    table = preset_tables().get(preset, {})
    values = {name: value for name, value in table.items() if not isinstance(value, dict)}
    values |= table.get("environments", {}).get(environment_family(env), {})
    values |= table.get("variants", {}).get(variant, {})
    return values
