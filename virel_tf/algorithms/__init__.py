"""Variants as recipes of parts.

`Recipe` and `register` make one of your own; `RECIPES` holds all of them.
"""

from virel_tf.recipe import Recipe
from virel_tf.registry import RECIPES, register

__all__ = ["RECIPES", "Recipe", "register"]
