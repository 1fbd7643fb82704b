"""Steps that need nothing of each other, at the same time.

NumPy, Arrow and SQLite release the interpreter's lock while they work.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

A = TypeVar("A")
B = TypeVar("B")
Item = TypeVar("Item")

THREADS = 2
"""More would keep more temporary columns in memory at once."""


def both(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """Run two calls at once; of two errors the first one's is raised, once both are over."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        other = pool.submit(copy_context().run, second)
        done = first()
        return done, other.result()


def each(call: Callable[[Item], A], items: Iterable[Item]) -> list[A]:
    """Results of a call for each item, in their order, some at a time."""
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        futures = [pool.submit(copy_context().run, call, item) for item in items]
        return [future.result() for future in futures]


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items; each is made while the caller works with the one before it."""
    source = iter(items)
    end: Any = object()

    def make() -> Item:
        return next(source, end)

    with ThreadPoolExecutor(max_workers=1) as pool:
        following = pool.submit(copy_context().run, make)
        while (item := following.result()) is not end:
            following = pool.submit(copy_context().run, make)
            yield item
