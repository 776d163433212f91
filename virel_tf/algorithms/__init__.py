"""Variants as recipes of parts.

`Recipe` and `register` make one of your own; `RECIPES` holds all of them.
"""

from virel_tf.algorithms.recipe import Recipe
from virel_tf.algorithms.registry import RECIPES, register

__all__ = ["RECIPES", "Recipe", "register"]
