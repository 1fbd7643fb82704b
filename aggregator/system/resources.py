"""Threads, freed memory and garbage collection.

NumPy, Arrow and SQLite release the interpreter's lock while they work.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")
Item = TypeVar("Item")

THREADS = 2
"""More would keep more temporary columns in memory at once."""


def run_both(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """Run two calls in parallel and return both results.

    If both raise, the error of the first one is raised, after the second one has ended.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        other = pool.submit(copy_context().run, second)
        done = first()
        return done, other.result()


def map_threads(call: Callable[[Item], A], items: Iterable[Item]) -> list[A]:
    """Call a function for each item in ``THREADS`` threads; returns the results in order."""
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        futures = [pool.submit(copy_context().run, call, item) for item in items]
        return [future.result() for future in futures]


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items; the next one is computed while the caller works with the current one."""
    source = iter(items)
    end: Any = object()

    def make() -> Item:
        return next(source, end)

    with ThreadPoolExecutor(max_workers=1) as pool:
        following = pool.submit(copy_context().run, make)
        while (item := following.result()) is not end:
            following = pool.submit(copy_context().run, make)
            yield item


def release_memory() -> None:
    """Return freed memory to the system: the C library and Arrow keep that of small arrays.

    Does nothing for the C library where it has no ``malloc_trim``.
    """
    if arrow := sys.modules.get("pyarrow"):
        arrow.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the memory of processes that are still there. Unit: bytes, or 0 if it is unknown."""
    total = 0
    for pid in pids:
        # It may end at any moment.
        with suppress(OSError, IndexError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Exclude objects that exist already from garbage collection within the block.

    The collector runs as often as new objects are made, and scans all modules each time.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Collect no garbage within the block: modules are loaded a tenth faster."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
