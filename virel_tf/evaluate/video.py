"""Videos of a policy, also on machines without a screen.

The frames are rendered in a subprocess, which plays the same actions again: Mesa, which renders
where there is no GPU, and TensorFlow each load an LLVM, and a process with both ends in a
segmentation fault.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from virel_tf.envs.make import Environment, Step, make_env
from virel_tf.errors import ConfigError, RunError
from virel_tf.files import TEMPORARY

BACKENDS = ("egl", "osmesa")  # for MuJoCo: a GPU or Mesa through EGL; Mesa in memory
PROBE = "import mujoco; mujoco.GLContext(16, 16).make_current()"
MOST_FRAMES = 30  # per second; steps in between are left out


class Episode(NamedTuple):
    """A recorded episode."""

    seed: int | None
    actions: list[np.ndarray]


class Recorder:
    """An environment that records its episodes."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.episodes: list[Episode] = []

    def reset(self, seed: int | None = None) -> np.ndarray:
        """Starts an episode."""
        self.episodes.append(Episode(seed, []))
        return self.env.reset(seed)

    def step(self, action: np.ndarray) -> Step:
        """One step."""
        self.episodes[-1].actions.append(np.array(action))
        return self.env.step(action)


class VideoWriter:
    """Writes episodes to an .mp4 or .gif file.

    ConfigError, before anything is played, where the packages for it are missing.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        for package in ("imageio", *(["imageio_ffmpeg"] if path.lower().endswith(".mp4") else [])):
            if importlib.util.find_spec(package) is None:
                raise ConfigError(
                    "video", f"{path} needs the package {package}; install virel_tf[video]"
                )
        self.backend = os.environ.get("MUJOCO_GL") or next(filter(can_render, BACKENDS), None)

    def write(self, environment: dict[str, Any], episodes: list[Episode]) -> None:
        """Writes the episodes of `make_env(**environment)` to the file."""
        settings = os.environ | ({"MUJOCO_GL": self.backend} if self.backend else {})
        child = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            env=settings,
            input=pickle.dumps((self.path, environment, episodes)),
            capture_output=True,
            check=False,
        )
        if child.returncode:
            with contextlib.suppress(OSError):
                unfinished(self.path).unlink()
            if not self.backend:
                raise ConfigError(
                    "video",
                    "MuJoCo can render neither with EGL nor with OSMesa here; install one of"
                    " them (Debian: libegl1 or libosmesa6)",
                )
            last = (child.stderr.decode().split("\n")[:-1] or [f"exit code {child.returncode}"])[-1]
            raise RunError(f"cannot write the video {self.path}: {last}")


def can_render(backend: str) -> bool:
    """Whether MuJoCo can render this way.

    Tried in a subprocess, since MuJoCo chooses once, as it is imported.
    """
    return (
        subprocess.run(
            [sys.executable, "-c", PROBE],
            env=os.environ | {"MUJOCO_GL": backend},
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )


def main() -> None:
    """The subprocess that renders; its arguments come on standard input."""
    render(*pickle.load(sys.stdin.buffer))


def render(path: str, environment: dict[str, Any], episodes: list[Episode]) -> None:
    """Plays the episodes again and writes them to an .mp4 or .gif file."""
    import imageio

    env = make_env(**environment, render_mode="rgb_array")
    every = math.ceil(env.frames_per_second / MOST_FRAMES)
    fps = env.frames_per_second / every
    how: dict[str, Any] = (
        dict(duration=1000 / fps, loop=0)
        if path.lower().endswith(".gif")
        else dict(fps=fps, macro_block_size=2)
    )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with imageio.get_writer(unfinished(path), **how) as video:
        for episode in episodes:
            env.reset(episode.seed)
            for i, action in enumerate(episode.actions):
                if i % every == 0:
                    video.append_data(env.render())
                env.step(action)
            video.append_data(env.render())
    os.replace(unfinished(path), path)
    env.close()


def unfinished(path: str) -> Path:
    """The name of a video until it is complete."""
    return Path(path).with_name(TEMPORARY + Path(path).name)
