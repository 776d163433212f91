"""How often something can be called in a second, on a machine whose speed drifts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

WINDOW_SECONDS = 0.25


def measure(
    seconds: float, work: dict[str, tuple[Callable[[], object], float]]
) -> dict[str, float]:
    """Calls the works in turns; returns the median of amount per second for each."""
    for call, _ in work.values():
        call()
        call()
    rates: dict[str, list[float]] = {name: [] for name in work}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not all(rates.values()):
        for name, (call, amount) in work.items():
            rates[name].append(amount * calls_per_second(call))
    return {name: statistics.median(values) for name, values in rates.items()}


def calls_per_second(call: Callable[[], object]) -> float:
    """How often `call` returns within one window."""
    calls, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < WINDOW_SECONDS:
        call()
        calls += 1
    return calls / (time.perf_counter() - begin)
