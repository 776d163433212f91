"""The machine this process runs on."""

from __future__ import annotations

import os


def memory() -> int:
    """The bytes of memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cores(threads: int) -> int:
    """How many cores to use: those asked for, or (0) those this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return threads or len(os.sched_getaffinity(0))
    return threads or os.cpu_count() or 1
