"""Films: a user names a file and finds the policy's episodes in it."""

from __future__ import annotations

import imageio
import numpy as np
import pytest
from untrained_run import make_run

from virel_tf.errors import ConfigError, RunError
from virel_tf.evaluate import video
from virel_tf.evaluate.command import evaluate_run
from virel_tf.evaluate.video import BACKENDS, VideoWriter, can_render


@pytest.fixture(scope="module")
def hopper(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("hopper"), env="Hopper-v4", variant="ddpg")


@pytest.mark.slow
def test_a_film_has_the_pictures_of_every_episode(hopper, tmp_path):
    if not any(map(can_render, BACKENDS)):
        pytest.skip("MuJoCo can draw neither with EGL nor with OSMesa here")
    plain = evaluate_run(str(hopper.folder), "best", episodes=2, seed=3)
    filmed = evaluate_run(
        str(hopper.folder), "best", episodes=2, seed=3, video=str(tmp_path / "films" / "hopper.gif")
    )
    assert filmed == plain | {"video": str(tmp_path / "films" / "hopper.gif")}
    frames = imageio.mimread(tmp_path / "films" / "hopper.gif")
    every = 5  # 125 steps per second, at most 30 pictures
    assert len(frames) == sum(-(-length // every) + 1 for length in plain["lengths"])
    assert all(np.std(frame) > 20 for frame in frames)  # not blank
    assert not np.array_equal(frames[0], frames[1])


@pytest.mark.slow
def test_without_a_way_to_draw_the_message_says_what_to_install(hopper, tmp_path, monkeypatch):
    monkeypatch.setattr(video, "can_render", lambda backend: False)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        ConfigError, match="^video: .*neither with EGL nor with OSMesa.*libegl1 or libosmesa6"
    ):
        evaluate_run(
            str(hopper.folder), "best", episodes=1, seed=3, video=str(tmp_path / "hopper.gif")
        )


def test_a_film_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")
    # what the process that renders has written when it fails
    (tmp_path / ".tmp-film.gif").write_text("half")
    with pytest.raises(RunError, match="^cannot write the video .*film.gif: "):
        VideoWriter(str(tmp_path / "film.gif")).write({"env_id": "Nowhere-v0"}, [])
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named_before_anything_is_played(monkeypatch):
    monkeypatch.setattr(
        video.importlib.util, "find_spec", lambda name: None if name == "imageio_ffmpeg" else name
    )
    monkeypatch.setenv("MUJOCO_GL", "egl")
    with pytest.raises(
        ConfigError, match="^video: film.mp4 needs the package imageio_ffmpeg; install virel_tf"
    ):
        VideoWriter("film.mp4")
    assert VideoWriter("film.gif").backend == "egl"
