"""Metrics, TensorBoard events, progress lines and the learning curve."""

from __future__ import annotations

import io
import math
import os
import struct

import numpy as np
import pytest

from virel_tf.errors import RunError
from virel_tf.run_folder.metrics_log import MetricsLog
from virel_tf.train.curve import draw_learning_curve, smooth, smoothing_window
from virel_tf.train.progress import Progress, duration


def row(step: int) -> dict:
    return {
        "step": step,
        "eval_return": step / 3,
        "entropy": None if step < 2000 else -0.1,
        "q": np.float32(0.1),
    }


def written(run_dir, steps) -> None:
    log = MetricsLog(run_dir, 0)
    for step in steps:
        log.write(row(step))
    log.close()


def events(run_dir) -> dict[str, list[tuple[int, float]]]:
    """Every point of every scalar, as TensorBoard sees them."""
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator
    board = accumulator(str(run_dir / "tensorboard"), size_guidance={"scalars": 0})
    board.Reload()
    return {
        name: [(event.step, event.value) for event in board.Scalars(name)]
        for name in board.Tags()["scalars"]
    }


def test_rows_come_back_exactly(tmp_path):
    log = MetricsLog(tmp_path / "run", 0)
    log.write(
        {
            "step": 1000,
            "a": 0.1 + 0.2,
            "b": None,
            "c": np.int64(7),
            "d": np.float32(0.1),
            "e": math.inf,
        }
    )
    log.write({"a": 1e-300, "step": 2000, "c": 3.0})
    log.close()
    assert (tmp_path / "run" / "metrics.csv").read_text().splitlines() == [
        "step,a,b,c,d,e",
        "1000,0.30000000000000004,,7,0.10000000149011612,inf",
        "2000,1e-300,,3.0,,",
    ]
    again = MetricsLog(tmp_path / "run", 2)
    again.close()
    assert (
        again.rows
        == log.rows
        == [
            {
                "step": 1000,
                "a": 0.1 + 0.2,
                "b": None,
                "c": 7,
                "d": float(np.float32(0.1)),
                "e": math.inf,
            },
            {"step": 2000, "a": 1e-300, "b": None, "c": 3.0, "d": None, "e": None},
        ]
    )
    assert isinstance(again.rows[0]["c"], int) and isinstance(again.rows[1]["c"], float)


def test_a_row_is_on_the_disk_when_write_returns(tmp_path):
    log = MetricsLog(tmp_path, 0)
    log.write(row(1000))
    assert (tmp_path / "metrics.csv").read_text().count("\n") == 2
    log.close()


def test_reopening_drops_later_rows_and_shows_each_point_once(tmp_path):
    written(tmp_path, [1000, 2000, 3000, 4000])
    with open(tmp_path / "metrics.csv", "ab") as file:
        file.write(b"5000,\xff\x00")  # killed in the middle of a row
    log = MetricsLog(tmp_path, 2)
    assert [kept["step"] for kept in log.rows] == [1000, 2000]
    log.write(row(3500))
    log.close()
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["step", "1000", "2000", "3500"]
    points = events(tmp_path)
    assert set(points) == {"eval_return", "entropy", "q"}
    assert [step for step, _ in points["eval_return"]] == [1000, 2000, 3500]
    assert [value for _, value in points["eval_return"]] == pytest.approx(
        [1000 / 3, 2000 / 3, 3500 / 3]
    )
    assert [step for step, _ in points["entropy"]] == [2000, 3500]


def test_keeping_none_starts_anew_with_other_columns(tmp_path):
    written(tmp_path, [1000])
    log = MetricsLog(tmp_path, 0)
    log.write({"step": 5, "other": 1})
    log.close()
    assert (tmp_path / "metrics.csv").read_text() == "step,other\n5,1\n"
    assert events(tmp_path) == {"other": [(5, 1.0)]}


def test_rows_that_are_gone_are_an_error_and_nothing_is_touched(tmp_path):
    with pytest.raises(RunError, match="holds 0 of the 1 rows"):
        MetricsLog(tmp_path, 1)
    written(tmp_path, [1000, 2000])
    path = tmp_path / "metrics.csv"
    before = path.read_bytes()[:-1]  # the last line lacks its end: not a row
    path.write_bytes(before)
    with pytest.raises(RunError, match="metrics.csv holds 1 of the 2 rows"):
        MetricsLog(tmp_path, 2)
    assert path.read_bytes() == before
    path.write_bytes(b"step,a,b\n1,2\n")
    with pytest.raises(RunError, match="line 2 has 2 cells for 3 columns"):
        MetricsLog(tmp_path, 1)


def test_a_column_the_file_lacks_is_refused(tmp_path):
    log = MetricsLog(tmp_path, 0)
    log.write({"step": 1, "a": 1.0})
    with pytest.raises(ValueError, match="b: not among the columns"):
        log.write({"step": 2, "b": 1.0})
    log.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_metrics_on_a_full_disk(tmp_path):
    log = MetricsLog(tmp_path, 0)
    log._file.close()
    log._file = open("/dev/full", "a")
    with pytest.raises(RunError, match="cannot write .*metrics.csv: No space left on device"):
        log.write(row(1000))
    log.close()


def test_a_file_where_tensorboard_should_be(tmp_path):
    (tmp_path / "tensorboard").write_text("mine")
    with pytest.raises(RunError, match="cannot write to .*tensorboard: Not a directory$"):
        MetricsLog(tmp_path, 0)


class Stream(io.StringIO):
    encoding = "utf-8"

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: terminal


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_plain_lines_every_ten_seconds_and_one_at_the_end(clock):
    stream = Stream(terminal=False)
    progress = Progress(100_000, 2000, stream, clock)
    for second in range(1, 26):
        clock.now = 100 + second
        progress.update(2000 + 400 * second, 812.34, 0.53)
    progress.message("saved")
    progress.close()
    progress.close()
    assert stream.getvalue().splitlines() == [
        "step 6000/100000  400 steps/s  return 812.3  epsilon 0.53  ETA 3m55s",
        "step 10000/100000  400 steps/s  return 812.3  epsilon 0.53  ETA 3m45s",
        "saved",
        "step 12000/100000  400 steps/s  return 812.3  epsilon 0.53  ETA 3m40s",
    ]


def test_speed_is_that_of_the_last_minute(clock):
    stream = Stream(terminal=False)
    progress = Progress(10**6, 0, stream, clock)
    step = 0
    for second in range(1, 201):
        clock.now += 1
        step += 1000 if second <= 100 else 10
        progress.update(step, None, None)
    assert stream.getvalue().splitlines()[-1] == "step 101000/1000000  10 steps/s  ETA 1d00h"


@pytest.mark.parametrize("columns", [20, 50, 80, 200])
def test_a_terminal_line_fits_and_is_redrawn_in_place(clock, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Stream(terminal=True)
    progress = Progress(1000, 0, stream, clock)
    for step in range(0, 1001, 10):
        progress.update(step, -3.21, 12.3456)
        clock.now += 0.05
    progress.close()
    text = stream.getvalue()
    assert text.count("\n") == 1 and text.endswith("\n")
    lines = text.rstrip("\n").split("\r")[1:]
    assert 20 <= len(lines) <= 27  # 5 s, at most 5 a second, and the last
    assert all(len(line) == columns - 1 for line in lines)
    assert "100%  1000/1000" in lines[-1]
    if columns >= 80:
        assert (
            "return -3.2  epsilon 12.3  ETA 0s" in lines[-1]
            and "━" in lines[-1]
            and "─" not in lines[-1]
        )


def test_messages_on_a_terminal_stand_on_lines_of_their_own(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    stream = Stream(terminal=True)
    progress = Progress(1000, 0, stream, clock)
    progress.message("before")
    progress.update(500)
    progress.message("saved")
    progress.close()
    shown = [line.split("\r")[-1].rstrip() for line in stream.getvalue().split("\n")]
    assert shown[:2] == ["before", "saved"] and "50%  500/1000" in shown[2] and shown[3:] == [""]


def test_a_terminal_without_unicode(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = Stream(terminal=True)
    stream.encoding = "ascii"
    Progress(1000, 0, stream, clock).update(500, 1.0, 1.0)
    assert stream.getvalue().isascii() and "###---" in stream.getvalue()


def test_nobody_watching_does_not_stop_a_run(clock, monkeypatch):
    def gone(_):
        raise BrokenPipeError

    stream = Stream(terminal=True)
    monkeypatch.setattr(stream, "write", gone)
    progress = Progress(1000, 0, stream, clock)
    progress.update(1)
    progress.message("x")
    progress.close()


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (259, "4m19s"),
        (3600 * 3 + 420, "3h07m"),
        (86400 * 2 + 3600 * 5, "2d05h"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def png_size(path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def curve_rows(count: int) -> list[dict]:
    return [
        {
            "step": 1000 * n,
            "eval_return": 10.0 * n,
            "eval_return_min": 9.0 * n,
            "eval_return_max": 11.0 * n,
            "epsilon": None if n < 3 else 100.0 / n,
            "temperature": 0.1,
            "entropy": math.nan if n == 4 else -n,
        }
        for n in range(1, count + 1)
    ]


def test_the_curve_is_a_picture_with_a_line_in_it(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    draw_learning_curve(curve_rows(50), tmp_path / "curve.png", "a run")
    assert min(png_size(tmp_path / "curve.png")) > 400
    pixels = image.imread(tmp_path / "curve.png")[..., :3]
    blue = np.abs(pixels - np.array([0x25, 0x63, 0xA8]) / 255).max(axis=-1) < 0.05
    assert blue.any(axis=0).sum() > 600  # the line runs across the picture
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        curve_rows(1),
        curve_rows(3),
        [{"step": 1000, "eval_return": None}],
        [{"step": 1000 * n, "eval_return": n, "entropy": 0.0} for n in range(20)],
    ],
    ids=["none", "one", "few", "no evaluation", "only entropy"],
)
def test_a_curve_of_little(tmp_path, rows):
    draw_learning_curve(rows, tmp_path / "curve.png", "a run")
    assert min(png_size(tmp_path / "curve.png")) > 400


def test_smoothing_keeps_lines_straight_and_ends_in_place():
    line = np.arange(40.0)
    np.testing.assert_allclose(smooth(line, 7), line)
    np.testing.assert_allclose(smooth(np.array([0.0, 0, 3, 0, 0]), 3), [0, 1, 1, 1, 0])
    assert [smoothing_window(count) for count in (1, 9, 10, 100, 1000)] == [1, 1, 3, 5, 51]
