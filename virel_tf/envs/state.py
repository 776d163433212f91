"""An environment's complete state as bytes, so that a resumed run continues bit for bit.

gymnasium has no such thing, so the chain of wrappers is walked and every attribute sorted into one
of three kinds:

- state: plain values, random generators and MuJoCo's data. Saved and restored.
- fixed: the same in a new instance, such as spaces, models, renderers and functions. Left alone.
- foreign: everything else (a physics engine's handle, an object of an unknown class). It cannot be
  saved; `foreign_parts` names it, and a run resumed with such an environment may differ from an
  uninterrupted one.

The bytes hold a pickle: restore only what you trust.
"""

from __future__ import annotations

import pickle
import random
import types
import zlib
from collections import deque
from typing import Any

import gymnasium
import numpy as np

from virel_tf.errors import RunError

STATE, FIXED, FOREIGN = "state", "fixed", "foreign"

PLAIN_TYPES = (
    int,
    float,
    complex,
    bool,
    str,
    bytes,
    type(None),
    np.random.Generator,
    np.random.RandomState,
    random.Random,
)
CONTAINER_TYPES = (tuple, list, dict, set, frozenset, deque)
FIXED_TYPES = (
    gymnasium.Space,
    gymnasium.envs.registration.EnvSpec,
    type,
    np.dtype,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
)
FIXED_MODULES = ("mujoco", "pygame", "gymnasium.envs.mujoco.mujoco_rendering")
# How the environment was made. A path or a render mode of the old process has no place in the new
# one.
CONSTRUCTION = frozenset(
    {"_saved_kwargs", "_ezpickle_args", "_ezpickle_kwargs", "fullpath", "metadata", "render_mode"}
)


def capture_state(env: gymnasium.Env) -> bytes:
    """Everything in `env` that can change, as far as `foreign_parts` does not list it."""
    layers = _layers(env)
    saved = [
        {
            "layer": _name(layer),
            "present": sorted(vars(layer)),
            "state": {
                name: value
                for name, value in vars(layer).items()
                if _kind(name, value, layers) == STATE
            },
        }
        for layer in layers
    ]
    # One pickle for all layers: objects that two attributes share stay shared. MuJoCo's is nearly
    # all zeros.
    return zlib.compress(pickle.dumps(saved, pickle.HIGHEST_PROTOCOL), 1)


def restore_state(env: gymnasium.Env, state: bytes) -> None:
    """Puts `env`, made like the one `state` was captured from, into that state.

    It need not have been reset.
    """
    layers = _layers(env)
    # Damaged bytes can make pickle raise nearly anything.
    try:
        saved = pickle.loads(zlib.decompress(state))
        names = [part["layer"] for part in saved]
    except Exception as error:
        raise RunError(
            f"the saved state of the environment cannot be read ({type(error).__name__})"
        ) from error
    if names != [_name(layer) for layer in layers]:
        raise RunError(
            f"the saved state belongs to another environment: {' in '.join(reversed(names))}, not "
            f"{' in '.join(_name(layer) for layer in reversed(layers))}"
        )
    for layer, part in zip(layers, saved, strict=True):
        attributes = vars(layer)
        for name in attributes.keys() - set(part["present"]):
            del attributes[name]
        for name, value in part["state"].items():
            if _is_mujoco_data(value):
                _copy_mujoco_data(value, layer, name)
            else:
                attributes[name] = value


def foreign_parts(env: gymnasium.Env) -> list[str]:
    """The parts of `env` whose state cannot be captured, as 'Layer.attribute'.

    Call it after a reset.
    """
    layers = _layers(env)
    return [
        f"{type(layer).__name__}.{name}"
        for layer in layers
        for name, value in vars(layer).items()
        if _kind(name, value, layers) == FOREIGN
    ]


def _layers(env: gymnasium.Env) -> list[gymnasium.Env]:
    """The outermost wrapper first, the environment proper last."""
    layers = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    return layers


def _name(layer: gymnasium.Env) -> str:
    return f"{type(layer).__module__}.{type(layer).__qualname__}"


def _kind(name: str, value: Any, layers: list[gymnasium.Env]) -> str:
    if name in CONSTRUCTION or any(value is layer for layer in layers):
        return FIXED
    return _kind_of_value(value)


def _kind_of_value(value: Any) -> str:
    # Exact types: a subclass may carry more than pickle would bring back.
    if type(value) in PLAIN_TYPES or isinstance(value, np.generic) or _is_mujoco_data(value):
        return STATE
    if type(value) is np.ndarray:
        return _kind_of_array(value)
    if type(value) in CONTAINER_TYPES:
        return _kind_of_items([*value, *value.values()] if type(value) is dict else value)
    if isinstance(value, FIXED_TYPES) or _from_module(value, FIXED_MODULES):
        return FIXED
    return FOREIGN


def _kind_of_array(array: np.ndarray) -> str:
    if array.dtype.hasobject:
        return _kind_of_items(array.flat)
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    # A view into a library's memory cannot be replaced by a new array.
    return FOREIGN if type(owner).__name__ == "PyCapsule" else STATE


def _kind_of_items(items: Any) -> str:
    """A container is state if all in it is, fixed if nothing in it can change, and else beyond us."""
    # MuJoCo's data must be copied into the environment's, which only an attribute allows.
    kinds = {FOREIGN if _is_mujoco_data(item) else _kind_of_value(item) for item in items}
    if kinds <= {STATE}:
        return STATE
    return FIXED if kinds == {FIXED} else FOREIGN


def _is_mujoco_data(value: Any) -> bool:
    return type(value).__name__ == "MjData" and _from_module(value, ("mujoco",))


def _from_module(value: Any, modules: tuple[str, ...]) -> bool:
    """Compares names, so that libraries an environment does not use need not be installed."""
    module = type(value).__module__
    return any(module == name or module.startswith(name + ".") for name in modules)


def _copy_mujoco_data(saved: Any, layer: Any, name: str) -> None:
    """Copies all of MjData into the environment's, which its renderer also holds.

    Positions and velocities alone would not do: the solver starts from its last solution, and some
    rewards read derived quantities before they step.
    """
    import mujoco

    try:
        mujoco.mj_copyData(vars(layer)[name], layer.model, saved)
    except (AttributeError, KeyError, TypeError, mujoco.FatalError) as error:
        raise RunError("the saved state does not fit the environment's MuJoCo model") from error
