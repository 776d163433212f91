"""Environments for the learner: flat float32 observations, actions in [-1, 1]."""

from __future__ import annotations

import contextlib
import difflib
import math
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np

from virel_tf.envs.state import capture_state, foreign_parts, restore_state
from virel_tf.errors import ConfigError, RunError


class Step(NamedTuple):
    """The result of one step. Values bootstrap where it is `truncated`, not where `terminated`."""

    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool


class Environment:
    """A gymnasium environment with one shape of interface; see `make_env`."""

    def __init__(
        self, env: gymnasium.Env, path_length: int | None = None, raw_actions: bool = False
    ) -> None:
        box = env.action_space
        assert isinstance(box, gymnasium.spaces.Box)  # as `make_env` sees to
        self.observation_space, self.action_space = env.observation_space, box
        self._env = env
        self._path_length = math.inf if path_length is None else path_length
        self._steps = 0
        self._flatten = _flattener(env.observation_space)
        self.observation_size: int = gymnasium.spaces.flatdim(env.observation_space)
        self.action_size: int = int(np.prod(box.shape))
        self._action_shape, self._action_dtype = box.shape, box.dtype
        self.whole_numbers: bool = np.issubdtype(box.dtype, np.integer)
        self._raw_actions = raw_actions
        # In float64 and halved first: high - low can exceed the range of the box's type.
        self._low = box.low.reshape(-1).astype(np.float64)
        self._high = box.high.reshape(-1).astype(np.float64)
        self.action_middle: np.ndarray = self._low / 2 + self._high / 2
        self.action_half_width: np.ndarray = self._high / 2 - self._low / 2
        self.action_low: np.ndarray = self._low.astype(np.float32)
        self.action_high: np.ndarray = self._high.astype(np.float32)

    def reset(self, seed: int | None = None) -> np.ndarray:
        """Starts an episode; without a seed, from the environment's random generator."""
        self._steps = 0
        observation, _ = self._env.reset(seed=seed)
        return self._flatten(observation)

    def step(self, action: np.ndarray) -> Step:
        """One step with an action in [-1, 1]^A, or in the environment's units.

        Actions are clipped to the bounds.
        """
        observation, reward, terminated, truncated, _ = self._env.step(self._scale(action))
        self._steps += 1
        if self._steps >= self._path_length and not terminated:
            truncated = True
        return Step(self._flatten(observation), float(reward), bool(terminated), bool(truncated))

    def get_state(self) -> bytes:
        """The environment's complete state, but for `foreign_state`."""
        return pickle.dumps((self._steps, capture_state(self._env)))

    def set_state(self, state: bytes) -> None:
        """Restores what `get_state` returned, in this process or another, without a reset."""
        try:
            steps, inner = pickle.loads(state)
        except Exception as error:
            raise RunError("the saved state of the environment cannot be read") from error
        restore_state(self._env, inner)
        self._steps = steps

    @property
    def foreign_state(self) -> list[str]:
        """Parts of the environment whose state cannot be captured; call it after a reset."""
        return foreign_parts(self._env)

    def render(self) -> np.ndarray:
        """The current frame [H, W, 3], where it was made with render_mode="rgb_array"."""
        return cast("np.ndarray", self._env.render())

    @property
    def frames_per_second(self) -> float:
        """Frames per second at which a video runs in real time."""
        return float(self._env.metadata.get("render_fps", 30))

    def close(self) -> None:
        """Frees what the environment holds."""
        self._env.close()

    def _scale(self, action: np.ndarray) -> np.ndarray:
        scaled = (
            action if self._raw_actions else self.action_middle + self.action_half_width * action
        )
        scaled = np.minimum(np.maximum(scaled, self._low), self._high)
        if self.whole_numbers:
            scaled = np.rint(scaled)
        return scaled.astype(self._action_dtype).reshape(self._action_shape)


def make_env(
    env_id: str,
    path_length: int | None = None,
    fallback_length: int | None = None,
    raw_actions: bool = False,
    render_mode: str | None = None,
) -> Environment:
    """The gymnasium environment `env_id`, whose episodes are truncated after `path_length` steps.

    The environment's time limit holds as well; one that has none gets `fallback_length` where
    path_length is None. Where `raw_actions`, actions are in the environment's units instead of
    [-1, 1]. An id that cannot be used raises a ConfigError that names env.
    """
    env = _make(env_id, render_mode)
    problem = _problem(env)
    if problem:
        env.close()
        raise ConfigError("env", f"{env_id} has {problem}")
    if path_length is None and (env.spec is None or env.spec.max_episode_steps is None):
        path_length = fallback_length
    if render_mode:
        _follow(env)
    return Environment(env, path_length, raw_actions)


def _make(env_id: str, render_mode: str | None) -> gymnasium.Env:
    if not re.fullmatch(r"(\w[\w.]*:)?[^:]+", env_id):
        raise ConfigError("env", f"{env_id!r} is not an id such as Hopper-v4 or module:Name-v0")
    try:
        with _without_warnings():
            # Not every environment takes a render_mode.
            options: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
            return gymnasium.make(env_id, disable_env_checker=True, **options)
    except gymnasium.error.DependencyNotInstalled as error:
        raise ConfigError(
            "env", f"{env_id} needs a package that is missing: {_one_line(error)}"
        ) from error
    except gymnasium.error.Error as error:
        if env_id in gymnasium.registry:
            raise ConfigError("env", f"{env_id} cannot be made: {_one_line(error)}") from error
        raise ConfigError(
            "env", f"{env_id!r} is not registered in gymnasium{_suggestion(env_id)}"
        ) from error
    except ImportError as error:
        successors = _successors(env_id)
        if successors:
            raise ConfigError(
                "env", f"{env_id} is no longer part of gymnasium; use {' or '.join(successors)}"
            ) from error
        raise ConfigError("env", f"{env_id} cannot be imported: {_one_line(error)}") from error


def _follow(env: gymnasium.Env) -> None:
    """Renders through the model's tracking camera, where it has one.

    The default camera is fixed.
    """
    inner: Any = env.unwrapped  # of a class of its own, which has more than gymnasium.Env
    renderer = getattr(inner, "mujoco_renderer", None)
    if renderer is not None:
        import mujoco

        camera = mujoco.mj_name2id(inner.model, mujoco.mjtObj.mjOBJ_CAMERA, "track")
        renderer.camera_id = camera if camera >= 0 else renderer.camera_id


def _problem(env: gymnasium.Env) -> str | None:
    """Why the environment cannot be used, if so."""
    actions, observations = env.action_space, env.observation_space
    if not isinstance(actions, gymnasium.spaces.Box):
        return f"a {type(actions).__name__} action space; a Box (continuous) one is needed"
    if not (np.isfinite(actions.low).all() and np.isfinite(actions.high).all()):
        return "an action space without bounds; a Box with finite low and high is needed"
    if not observations.is_np_flattenable:
        return (
            f"observations ({type(observations).__name__}) that cannot be made a vector of fixed"
            " length"
        )
    return None


def _flattener(space: gymnasium.Space[Any]) -> Callable[[Any], np.ndarray]:
    """Observation to a float32 vector: a copy, since an environment may reuse its array."""
    if isinstance(space, gymnasium.spaces.Box):
        return lambda observation: np.array(observation, np.float32).reshape(-1)
    return lambda observation: np.array(gymnasium.spaces.flatten(space, observation), np.float32)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Hides gymnasium's warning about old versions and MuJoCo's about how models are written.

    MuJoCo would also write its warning to MUJOCO_LOG.TXT in the working directory.
    """
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore", DeprecationWarning)
        with contextlib.suppress(ImportError):
            import mujoco

            stack.callback(mujoco.set_mju_user_warning, mujoco.get_mju_user_warning())
            mujoco.set_mju_user_warning(lambda text: None)
        yield


def _suggestion(env_id: str) -> str:
    """The environment with the nearest name, in the same version or else the newest."""
    newest: dict[str, gymnasium.envs.registration.EnvSpec] = {}
    for spec in gymnasium.registry.values():
        family = _family(spec.id).lower()
        if family not in newest or (spec.version or 0) > (newest[family].version or 0):
            newest[family] = spec
    close = difflib.get_close_matches(_family(env_id).lower(), newest, n=1)
    if not close:
        return ""
    best = newest[close[0]].id
    same_version = _family(best) + env_id.removeprefix(_family(env_id))
    if same_version in gymnasium.registry and not callable(
        gymnasium.registry[same_version].entry_point
    ):
        best = same_version
    return f" (did you mean {best}?)"


def _successors(env_id: str) -> list[str]:
    """What to use in place of a removed version.

    Gymnasium keeps those, made by a function that only raises.
    """
    spec = gymnasium.registry.get(env_id)
    if spec is None or not callable(spec.entry_point):
        return []
    return [
        other.id
        for other in gymnasium.registry.values()
        if _family(other.id) == _family(env_id) and other.entry_point != spec.entry_point
    ]


def _family(env_id: str) -> str:
    return re.sub(r"-v\d+$", "", env_id)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
