"""Checkpoints whose every part says which step it is from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from virel_tf.run_folder.checkpoints import CheckpointStore, Segment

ROWS = 10  # per step of these tests


def rows(first: int, last: int, factor: float = 1.0) -> Segment:
    index = np.arange(first, last)
    return Segment(
        first,
        last,
        {"observation": factor * index[:, None] * np.ones(3, np.float32), "odd": index % 2},
    )


def save(store: CheckpointStore, step: int, keep_from: int = 0, factor: float = 1.0) -> Path:
    """A checkpoint whose every part says which step (and factor) it is from."""
    arrays = {
        "policy/layer_0/kernel:0": np.full((4, 3), factor * step, np.float32),
        "file": np.array(step),
    }
    segment = rows((step - 1) * ROWS, step * ROWS, factor)
    return store.save(
        step, arrays, {"env/0": b"state %d" % step}, {"step": step}, segment, keep_from
    )


def check(store: CheckpointStore, step: int, first: int = 0, factor: float = 1.0) -> None:
    """The newest checkpoint is that of `step`, with all rows from `first` on (`factor`.

    Of the last ones).
    """
    loaded = store.load_newest()
    assert (
        loaded.step == step
        and loaded.info == {"step": step}
        and loaded.blobs == {"env/0": b"state %d" % step}
    )
    assert set(loaded.arrays) == {"policy/layer_0/kernel:0", "file"}
    np.testing.assert_array_equal(
        loaded.arrays["policy/layer_0/kernel:0"], np.full((4, 3), factor * step, np.float32)
    )
    assert [segment.first for segment in loaded.segments] == list(range(first, step * ROWS, ROWS))
    for segment in loaded.segments:
        expected = rows(
            segment.first, segment.first + ROWS, factor if segment is loaded.segments[-1] else 1.0
        )
        assert segment.last == expected.last
        np.testing.assert_equal(segment.arrays, expected.arrays)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
