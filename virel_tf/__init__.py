"""Reinforcement learning as variational EM (VIREL) in TensorFlow."""

__version__ = "0.1.0"
