"""Writes metrics.csv, and the same for TensorBoard; a resumed run shows every point once."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from virel_tf.errors import RunError, tensorflow_message
from virel_tf.files import atomic_write, ensure_writable
from virel_tf.run_folder.metrics import Row, parse_row, read_rows
from virel_tf.run_folder.paths import METRICS, tensorboard_folder


class MetricsLog:
    """Rows of metrics.csv, each on the disk when `write` returns.

    The first row's keys are the columns.
    """

    def __init__(self, run_dir: Path, keep_rows: int) -> None:
        """Opens the file, keeping the first `keep_rows` rows of an earlier part of the run.

        Rows after them are dropped.
        """
        self.path = Path(run_dir) / METRICS
        self.columns, self.rows = read_rows(self.path.parent, keep_rows) if keep_rows else ([], [])
        ensure_writable(self.path.parent)
        kept = [self.columns, *([_cell(row[name]) for name in self.columns] for row in self.rows)]
        atomic_write(self.path, _lines(kept).encode() if keep_rows else b"")
        self._board = _Board(tensorboard_folder(run_dir))
        for row in self.rows:
            self._board.add(row)
        self._file = open(self.path, "a", encoding="utf-8", newline="")

    def write(self, row: Row) -> None:
        """Adds a row; None or a missing column leaves its cell empty."""
        new = not self.columns
        self.columns = self.columns or list(row)
        unknown = [name for name in row if name not in self.columns]
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: not among the columns of {self.path}")
        cells = [_cell(row.get(name)) for name in self.columns]
        try:
            self._file.write(_lines([self.columns, cells] if new else [cells]))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror}") from error
        self.rows.append(parse_row(self.columns, cells))
        self._board.add(self.rows[-1])

    def close(self) -> None:
        """Closes both files; rows are on the disk when `write` returns."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._board.close()


class _Board:
    """TensorBoard event files, written from scratch."""

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf  # takes seconds, and nothing else here needs it

        self._tf = tf
        self._folder = folder
        with self._as_run_error():
            for old in folder.glob("events.out.tfevents.*"):
                old.unlink()
            self._writer = tf.summary.create_file_writer(str(folder))

    def add(self, row: Row) -> None:
        """One event for the whole row: a resumed run has thousands of scalars to write again."""
        summary = self._tf.compat.v1.Summary
        scalars = [
            summary.Value(tag=name, simple_value=value)
            for name, value in row.items()
            if name != "step" and isinstance(value, (int, float))
        ]
        with self._as_run_error(), self._writer.as_default():  # which flushes at its end
            self._tf.summary.experimental.write_raw_pb(
                summary(value=scalars).SerializeToString(), step=row["step"]
            )

    def close(self) -> None:
        with contextlib.suppress(self._tf.errors.OpError):
            self._writer.close()

    @contextlib.contextmanager
    def _as_run_error(self) -> Iterator[None]:
        """Turns errors of the file system and of TensorFlow into a RunError."""
        try:
            yield
        except OSError as error:
            raise RunError(f"cannot write to {self._folder}: {error.strerror}") from error
        except self._tf.errors.OpError as error:
            raise RunError(
                f"cannot write to {self._folder}: {tensorflow_message(error)}"
            ) from error


def _cell(value: Any) -> str:
    """A value as text that reads back as the same."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return repr(float(value))


def _lines(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
