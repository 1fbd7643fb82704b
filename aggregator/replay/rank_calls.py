"""Arranges the collectives of a job by rank and step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.errors import ReplayError
from aggregator.profile.arrays import Int64
from aggregator.texts import Text, say

MIN_COMMON_STEPS = 4
"""Steps in a row in which all ranks make the same calls, and one more before them."""


@dataclass(frozen=True)
class Calls:
    """Synchronizing collectives that were matched between ranks; one row per rank and call."""

    kernel: Int64  # Row of its kernel.
    rank: Int64  # Number of the rank, from 0 without gaps.
    communicator: Int64
    sequence: Int64  # Number of the call in its communicator.
    iteration: Int64  # Iteration that launched it.
    start_ns: Int64  # Unit: ns.

    def rows(self, chosen: Int64) -> Calls:
        """Return some of its rows."""
        return Calls(
            kernel=self.kernel[chosen],
            rank=self.rank[chosen],
            communicator=self.communicator[chosen],
            sequence=self.sequence[chosen],
            iteration=self.iteration[chosen],
            start_ns=self.start_ns[chosen],
        )


@dataclass(frozen=True)
class ArrangedCalls:
    """The same by rank and step."""

    kernel: Int64  # Row of each kernel, shape (ranks, steps, calls of a step).
    group: Int64  # Communicator, shape (calls of a step, ranks).
    iteration: Int64  # Iterations of the steps.


def cannot_compare(reason: Text) -> ReplayError:
    """Return the error for a job whose ranks cannot be compared."""
    return ReplayError(say("The ranks cannot be compared: {reason}.", reason=reason))


def arrange(calls: Calls, num_ranks: int, steady: Int64) -> ArrangedCalls:
    """Arrange the calls of the longest run of steps in which all ranks make the same calls.

    Args:
        calls: The collectives.
        num_ranks: Number of ranks.
        steady: Numbers of the steady iterations, ascending.

    Raises:
        ReplayError: There are too few such steps.
    """
    if num_ranks < 2:
        raise cannot_compare(
            say(
                "no collective of a rank fits one of another: they recorded none, or a capture was "
                "cut or lost some"
            )
        )
    calls = _complete(calls)
    low, high = int(calls.iteration.min(initial=0)), int(calls.iteration.max(initial=0))
    counts = np.zeros((num_ranks, high - low + 1), dtype=np.int64)
    np.add.at(counts, (calls.rank, calls.iteration - low), 1)
    usual = _usual(counts[:, np.isin(np.arange(low, high + 1), steady)])
    same = (counts == usual).all(axis=0) & (usual > 0)
    same &= np.isin(np.arange(low, high + 1), np.append(steady, steady[:1] - 1))
    first, count = _longest_run(same)
    if count < MIN_COMMON_STEPS + 1:
        raise cannot_compare(
            say("in fewer than {count} steps all ranks make the same calls", count=MIN_COMMON_STEPS)
        )
    iteration = np.arange(first + low, first + low + count)
    chosen = np.flatnonzero((calls.iteration >= iteration[0]) & (calls.iteration <= iteration[-1]))
    order = chosen[np.lexsort((calls.start_ns[chosen], calls.rank[chosen]))]
    calls = calls.rows(order)
    shape = (num_ranks, count, usual)
    communicator = calls.communicator.reshape(shape)
    place = np.broadcast_to(np.arange(count * usual), (num_ranks, count * usual)).ravel()
    if (communicator != communicator[:, :1]).any() or not _same_place(calls, place):
        raise cannot_compare(say("the ranks make their calls in different orders"))
    return ArrangedCalls(calls.kernel.reshape(shape), communicator[:, 0].T, iteration[1:])


def _complete(calls: Calls) -> Calls:
    pairs = np.unique(np.stack([calls.communicator, calls.rank]), axis=1)
    members = np.bincount(pairs[0])
    keys = np.stack([calls.communicator, calls.sequence])
    _, code, count = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    code = code.ravel()
    first = np.full(len(count), np.iinfo(np.int64).max)
    np.minimum.at(first, code, calls.iteration)
    # A rank that is late makes calls of a step when another one has begun the next.
    own = calls.rank == most_regular(calls)
    first[code[own]] = calls.iteration[own]
    complete = (count[code] == members[calls.communicator]) & (members[calls.communicator] > 1)
    found = Calls(
        calls.kernel, calls.rank, calls.communicator, calls.sequence, first[code], calls.start_ns
    )
    return found.rows(np.flatnonzero(complete))


def most_regular(calls: Calls) -> int:
    """Return the rank that makes the same number of calls in most iterations."""
    if not len(calls.rank):
        return 0
    low = int(calls.iteration.min())
    counts = np.zeros(
        (int(calls.rank.max()) + 1, int(calls.iteration.max()) - low + 1), dtype=np.int64
    )
    np.add.at(counts, (calls.rank, calls.iteration - low), 1)
    regular = [int(np.bincount(row[row > 0]).max(initial=0)) for row in counts]
    return int(np.argmax(regular))


def _usual(counts: Int64) -> int:
    """Return the most frequent number of calls of a rank in a step."""
    return int(np.bincount(counts.ravel()).argmax()) if counts.size else 0


def _longest_run(same: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[int, int]:
    """Return the first place and length of the longest run."""
    edges = np.flatnonzero(np.diff(np.r_[0, same.astype(np.int8), 0]))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    if not len(starts):
        return 0, 0
    longest = int(np.argmax(lengths))
    return int(starts[longest]), int(lengths[longest])


def _same_place(calls: Calls, place: Int64) -> bool:
    order = np.lexsort((calls.sequence, calls.communicator))
    same = (np.diff(calls.communicator[order]) == 0) & (np.diff(calls.sequence[order]) == 0)
    return not (np.diff(place[order])[same] != 0).any()
