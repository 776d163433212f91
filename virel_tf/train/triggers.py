"""Triggers: every so many steps, or a signal to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def crossed(every: int, before: int, now: int) -> bool:
    """Whether a multiple of `every` lies in (before, now]."""
    return now // every > before // every


class StopRequest:
    """Ctrl-C or SIGTERM, held until the run is at a point where it can save.

    The second signal stops at once.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._earlier: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is not threading.main_thread():
            # signals reach the main thread alone
            return self
        for number in (signal.SIGINT, signal.SIGTERM):
            self._earlier[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *args: object) -> None:
        for number, handler in self._earlier.items():
            # None: it was not set from Python, so Python cannot set it again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signal = number
        signal.signal(number, signal.SIG_DFL)

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as shells have it; 0 without one."""
        return 128 + self.signal if self.signal else 0
