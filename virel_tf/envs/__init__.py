"""Environments: any gymnasium id with a bounded Box action space, and two toys for tests."""

from virel_tf.envs import toy
from virel_tf.envs.make import Environment, Step, make_env

toy.register()

__all__ = ["Environment", "Step", "make_env"]
