"""When two runs are the same: what their settings must share."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from virel_tf.config import Config

FIELDS = {field.name: field for field in dataclasses.fields(Config)}
IDENTITY = {"env": str, "variant": str, "seed": int}  # which run it is, whatever its other settings


def lacking_identity(settings: Any) -> list[str]:
    """The names of identifying settings that are missing or of the wrong type."""
    return [
        name
        for name, kind in IDENTITY.items()
        if not isinstance(settings, dict) or type(settings.get(name)) is not kind
    ]


def with_default_settings(saved: dict[str, Any]) -> dict[str, Any]:
    """A run's settings, with defaults for those it lacks.

    Those this version does not have stay.
    """
    return {name: field.default for name, field in FIELDS.items()} | saved


def changes_numbers(name: str) -> bool:
    """Whether a setting, other than environment, variant and seed, makes a run another one."""
    return name not in IDENTITY and not (name in FIELDS and FIELDS[name].metadata["may_change"])


def fingerprint(settings: dict[str, Any]) -> str:
    """Equal for runs of one group: all settings but the seed and those that change no number."""
    return json.dumps(
        {
            name: value
            for name, value in settings.items()
            if name in ("env", "variant") or changes_numbers(name)
        },
        sort_keys=True,
    )


def identity(settings: dict[str, Any]) -> tuple[str, int]:
    """Unique to a run."""
    return fingerprint(settings), settings["seed"]
