"""How far a run has come: one line redrawn on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TextIO

REDRAW_EVERY = 0.2  # seconds, on a terminal
PRINT_EVERY = 10.0  # seconds, elsewhere
RATE_OVER = 60.0  # seconds of the past that steps/s speaks of
LONGEST_BAR = 30


class Progress:
    """Shows steps, speed, the last evaluation's return and epsilon.

    Whole-line messages go through it too.
    """

    def __init__(
        self,
        total_steps: int,
        start_step: int = 0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total_steps
        self._stream = stream or sys.stderr
        self._clock = clock
        self._terminal = self._stream.isatty()
        self._past = deque([(clock(), start_step)])  # when which step was shown
        self._due = clock() + (0 if self._terminal else PRINT_EVERY)
        self._latest: tuple[int, float | None, float | None] | None = None
        self._shown = True  # nothing new to show

    def update(
        self, step: int, last_return: float | None = None, epsilon: float | None = None
    ) -> None:
        """Takes note of where the run is, and shows it if the last time was long enough ago."""
        self._latest = step, last_return, epsilon
        self._shown = False
        if self._clock() >= self._due:
            self._show()

    def message(self, text: str) -> None:
        """Prints a line of its own, above the redrawn one."""
        if not self._terminal:
            self._write(text + "\n")
            return
        self._write("\r" + text.ljust(_width()) + "\n")
        self._show()

    def close(self) -> None:
        """Shows the last state and ends the line."""
        if not self._shown:
            self._show()
        if self._terminal and self._latest is not None:
            self._write("\n")
        self._latest = None

    def _show(self) -> None:
        if self._latest is None:
            return
        step, last_return, epsilon = self._latest
        now = self._clock()
        rate = self._rate(now, step)
        self._due = now + (REDRAW_EVERY if self._terminal else PRINT_EVERY)
        self._shown = True
        parts = [
            f"{rate:.0f} steps/s" if rate else "",
            f"return {last_return:.1f}" if last_return is not None else "",
            f"epsilon {epsilon:.3g}" if epsilon is not None else "",
            f"ETA {duration(max(self._total - step, 0) / rate)}" if rate else "",
        ]
        figures = "  ".join([f"{step}/{self._total}", *filter(None, parts)])
        if self._terminal:
            self._write("\r" + self._with_bar(min(step / self._total, 1.0), figures))
        else:
            self._write(f"step {figures}\n")

    def _rate(self, now: float, step: int) -> float:
        """Steps per second of late; 0 while unknown."""
        self._past.append((now, step))
        while len(self._past) > 2 and self._past[1][0] <= now - RATE_OVER:
            self._past.popleft()
        then, past_step = self._past[0]
        return (step - past_step) / (now - then) if now > then else 0.0

    def _with_bar(self, fraction: float, figures: str) -> str:
        """A line as wide as the terminal: the bar takes what room the figures leave."""
        width = _width()
        line = f"{int(100 * fraction):3d}%  {figures}"
        room = min(LONGEST_BAR, width - len(line) - 1)
        if room >= 5:
            done, left = "━─" if "utf" in (self._stream.encoding or "").lower() else "#-"
            filled = int(fraction * room)
            line = f"{done * filled}{left * (room - filled)} {line}"
        return line[:width].ljust(width)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # training goes on when nobody is there to watch
            self._stream.write(text)
            self._stream.flush()


def duration(seconds: float) -> str:
    """Seconds as a person says them: 42s, 4m19s, 3h07m, 2d05h."""
    seconds = round(seconds)
    for unit, name, part, part_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if seconds >= unit:
            return f"{seconds // unit}{name}{seconds % unit // part:02d}{part_name}"
    return f"{seconds}s"


def _width() -> int:
    return shutil.get_terminal_size().columns - 1  # in the last column some terminals wrap
