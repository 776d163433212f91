"""Films of a policy at work, on machines without a screen too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from virel_tf.envs.make import Environment, Step
from virel_tf.errors import ConfigError, RunError

BACKENDS = ("egl", "osmesa")  # a GPU or Mesa through EGL; Mesa in memory
PROBE = "import mujoco; mujoco.GLContext(16, 16).make_current()"


def headless_rendering() -> None:
    """Has MuJoCo draw without a screen: sets MUJOCO_GL, where the user has not, to the first way that works."""
    if "MUJOCO_GL" in os.environ:
        return
    for backend in BACKENDS:
        # In a process of its own: MuJoCo and PyOpenGL choose once, as they are imported.
        probe = subprocess.run([sys.executable, "-c", PROBE], env=os.environ | {"MUJOCO_GL": backend},
                               capture_output=True)
        if probe.returncode == 0:
            os.environ["MUJOCO_GL"] = backend
            return
    raise ConfigError("--video: MuJoCo can draw neither with EGL nor with OSMesa here; install one of them (Debian: "
                      "libegl1 or libosmesa6), or set MUJOCO_GL")


class Film:
    """An environment that is filmed at every step into an .mp4 or .gif file."""

    def __init__(self, path: str, env: Environment) -> None:
        try:
            import imageio
        except ImportError:
            raise ConfigError("--video: needs imageio; install virel_tf[video]") from None
        self.env = env
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        fps = env.frames_per_second
        try:
            if path.lower().endswith(".gif"):
                self.writer = imageio.get_writer(path, duration=1000 / fps, loop=0)
            else:
                self.writer = imageio.get_writer(path, fps=fps, macro_block_size=2)
        except (ImportError, ValueError, OSError) as error:
            raise RunError(f"cannot write the video {path}: {error}") from error

    def reset(self, seed: int | None = None) -> np.ndarray:
        """Starts an episode."""
        observation = self.env.reset(seed)
        self.writer.append_data(self.env.render())
        return observation

    def step(self, action: np.ndarray) -> Step:
        """One step and one picture."""
        step = self.env.step(action)
        self.writer.append_data(self.env.render())
        return step

    def __enter__(self) -> Film:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()
