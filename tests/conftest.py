"""Fixtures that several test files share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from virel_tf.registry import RECIPES

if TYPE_CHECKING:
    from untrained_run import UntrainedRun


@pytest.fixture(autouse=True)
def no_inherited_silence(monkeypatch) -> None:
    """tf2onnx sets this as it is imported.

    A command started later would take it for the user's wish to read all.
    """
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)


@pytest.fixture(autouse=True)
def float32_afterwards() -> Iterator[None]:
    """A learner sets Keras' precision for the whole process.

    The next test's networks are of float32 again.
    """
    yield
    if "keras" in sys.modules:
        sys.modules["keras"].config.set_dtype_policy("float32")


@pytest.fixture(autouse=True)
def recipes_as_they_ship() -> Iterator[None]:
    """Forgets the variants that a test made."""
    shipped = dict(RECIPES)
    yield
    RECIPES.clear()
    RECIPES.update(shipped)


@pytest.fixture(scope="session", params=["paper", "modern"])
def humanoid(request, tmp_path_factory) -> UntrainedRun:
    """Humanoid's actions reach from -0.4 to 0.4; observations are normalised; exported.

    modern: with batch normalisation, and rewards divided by 4.
    """
    from untrained_run import make_run  # TensorFlow comes in only for the tests that need it

    from virel_tf.export.command import export_run

    run = make_run(
        tmp_path_factory.mktemp("humanoid") / "run",
        env="Humanoid-v4",
        variant="beta",
        preset=request.param,
        normalise_observations=True,
        reward_scale=2.5,
        reward_divisor=4.0,
    )
    export_run(run.folder)
    return run
