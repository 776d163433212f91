"""The live table of an experiment.

A line per cell redrawn on a terminal; elsewhere a summary line at intervals.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable
from typing import NamedTuple, TextIO

from virel_tf.train.progress import duration

REDRAW_EVERY = 0.5  # seconds, on a terminal
PRINT_EVERY = 30.0  # seconds, elsewhere
# Where there is not room for all cells, the first are shown.
ORDER = ("running", "elsewhere", "failed", "waiting", "done")


class Line(NamedTuple):
    """A row of the table."""

    name: str
    state: str  # one of ORDER
    step: int
    total: int
    return_: float | None
    steps_per_s: float = 0.0  # 0 while unknown

    @property
    def seconds_left(self) -> float | None:
        """None while unknown."""
        return (self.total - self.step) / self.steps_per_s if self.steps_per_s else None


class Table:
    """Shows lines; messages go above them until `keep` is called."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._terminal = self._stream.isatty()
        self._due = clock()
        self._drawn = 0  # lines on the terminal that the next drawing replaces

    def message(self, text: str) -> None:
        """Prints a line that stays."""
        self._write(self._clear() + text + "\n")
        if self._terminal:
            self._drawn = 0
            self._due = self._clock()

    def due(self) -> bool:
        """Whether the last showing was long enough ago."""
        return self._clock() >= self._due

    def show(self, lines: list[Line]) -> None:
        """Shows the state of the cells."""
        self._due = self._clock() + (REDRAW_EVERY if self._terminal else PRINT_EVERY)
        if not self._terminal:
            self._write(summary(lines) + "\n")
            return
        size = shutil.get_terminal_size()
        text = [line[: size.columns - 1] for line in table(lines, room=size.lines - 4)]
        self._write(self._clear() + "\n".join(text) + "\n")
        self._drawn = len(text)

    def keep(self) -> None:
        """Leaves the shown table; messages and later tables go below it."""
        self._drawn = 0

    def _clear(self) -> str:
        return f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""

    def _write(self, text: str) -> None:
        with contextlib.suppress(
            OSError
        ):  # the experiment continues when the terminal has gone away
            self._stream.write(text)
            self._stream.flush()


def table(lines: list[Line], room: int) -> list[str]:
    """A heading, a row per cell while there is room, and the summary."""
    shown = sorted(lines, key=lambda line: ORDER.index(line.state))[: max(room, 1)]
    width = max([len("cell"), *(len(line.name) for line in shown)])
    rows = [
        (
            f"{'cell':<{width}}  {'state':<9}  {'done':>5}  {'step':>9}  {'return':>9}  {'steps/s':>7} "
            f" {'ETA':>6}"
        )
    ]
    for line in shown:
        return_ = "" if line.return_ is None else f"{line.return_:.1f}"
        rate = f"{line.steps_per_s:.0f}" if line.steps_per_s else ""
        left = "" if line.seconds_left is None else duration(line.seconds_left)
        rows.append(
            f"{line.name:<{width}}  {line.state:<9}  {min(line.step / line.total, 1):>5.0%} "
            f" {line.step:>9}  {return_:>9}  {rate:>7}  {left:>6}"
        )
    if len(shown) < len(lines):
        rows.append(f"... and {len(lines) - len(shown)} more")
    return [*rows, summary(lines)]


def summary(lines: list[Line]) -> str:
    """The whole experiment in one line."""
    counts = {state: sum(line.state == state for line in lines) for state in ORDER}
    states = ", ".join(
        f"{counts[state]} {state}"
        for state in ("done", "running", "elsewhere", "waiting", "failed")
        if counts[state]
    )
    steps, total = (
        sum(min(line.step, line.total) for line in lines),
        sum(line.total for line in lines),
    )
    left = sum(max(line.total - line.step, 0) for line in lines if line.state != "failed")
    rate = sum(line.steps_per_s for line in lines if line.state in ("running", "elsewhere"))
    speed = f"; {rate:.0f} steps/s in all, ETA {duration(left / rate)}" if rate and left else ""
    return f"{len(lines)} cells: {states}; {steps} of {total} steps ({steps / total:.0%}){speed}"
