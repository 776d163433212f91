"""Settings of a test that name numbers of a recipe too."""

from __future__ import annotations

import dataclasses
from typing import Any

from virel_tf.config import Config
from virel_tf.recipe import Recipe
from virel_tf.registry import RECIPES

NUMBERS = {field.name for field in dataclasses.fields(Recipe) if field.metadata}


def tuned(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that Config takes: numbers of a recipe among them make a variant of their own.

    The fixture `recipes_as_they_ship` forgets it after the test.
    """
    numbers = {name: value for name, value in settings.items() if name in NUMBERS}
    if not numbers:
        return settings
    variant = settings.get("variant", Config.variant)
    name = f"{variant}, {numbers}"
    RECIPES[name] = dataclasses.replace(RECIPES[variant], **numbers)
    others = {name: value for name, value in settings.items() if name not in NUMBERS}
    return others | {"variant": name}
