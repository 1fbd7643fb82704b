"""Which executions are the same op: the same place in the model, over all steps and for good.

Instances of a step form a sequence of (path, label, direction). Steps with the same sequence
share identities at once. A step with another sequence is aligned to the commonest one, so that one
op more renames no other; what recurs is given a place of its own, the rest is joined by shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

from aggregator.columns import ordered
from aggregator.profile import Int64

MAX_ALIGN_CELLS = 25_000_000
"""Largest product of lengths that is aligned exactly; above, common items are passed over."""
MIN_COMMON_SHARE = 0.5
"""A step that has less than this in common with the commonest one is no step of the loop."""


@dataclass(frozen=True)
class Places:
    """Where each item stands.

    Attributes:
        place: Position in the master sequence; -1: the item has no place of its own.
        length: Length of the master sequence.
    """

    place: Int64
    length: int


def assign_places(code: Int64, step: Int64, num_steps: int) -> Places:
    """Give each item of a run of steps its place in the loop.

    Args:
        code: What the item is; items are in the order in which they ran.
        step: Step of each item, ``0 <= step < num_steps``, in any order.
        num_steps: Number of steps; step 0 is what came before the first.

    Returns:
        Places by item.
    """
    order = ordered(step)
    bounds = np.searchsorted(step[order], np.arange(num_steps + 1))
    sequences = [code[order[low:high]] for low, high in pairwise(bounds.tolist())]
    groups = _group_equal(sequences)
    # What came before the loop is no step of it; of equally common sequences the longest counts.
    groups.sort(key=lambda members: (-len(members), members == [0], -len(sequences[members[0]])))
    place = np.full(len(code), -1, dtype=np.int64)
    if not groups:
        return Places(place, 0)
    master = _Master(sequences[groups[0][0]])
    for members in groups:
        sequence = sequences[members[0]]
        places = master.place(sequence, insert=len(members) > 1)
        for member in members:
            place[order[bounds[member] : bounds[member + 1]]] = places
    return Places(master.ranks(place), len(master))


def _group_equal(sequences: list[Int64]) -> list[list[int]]:
    """Steps with equal sequences; empty steps left out."""
    groups: dict[bytes, list[int]] = {}
    for number, sequence in enumerate(sequences):
        if len(sequence):
            groups.setdefault(sequence.tobytes(), []).append(number)
    return list(groups.values())


class _Master:
    """The commonest sequence, grown by what recurs in others. Ids stay; the order is kept apart."""

    def __init__(self, sequence: Int64) -> None:
        self._codes = sequence.copy()
        self._ids = np.arange(len(sequence), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._codes)

    def ranks(self, ids: Int64) -> Int64:
        """Position in the final order of each id; -1 stays."""
        rank = np.empty(len(self._ids), dtype=np.int64)
        rank[self._ids] = np.arange(len(self._ids))
        result: Int64 = np.where(ids >= 0, rank[np.maximum(ids, 0)], -1)
        return result

    def place(self, sequence: Int64, *, insert: bool) -> Int64:
        """Ids for a sequence; what has no counterpart is inserted or gets -1."""
        matched = self._align(sequence)
        if np.count_nonzero(matched >= 0) < MIN_COMMON_SHARE * min(len(sequence), len(self)):
            return np.full(len(sequence), -1, dtype=np.int64)
        ids: Int64 = np.where(matched >= 0, self._ids[np.maximum(matched, 0)], -1)
        missing = np.flatnonzero(matched < 0)
        if insert and len(missing):
            new = np.arange(len(self), len(self) + len(missing), dtype=np.int64)
            ids[missing] = new
            # Each goes behind the last matched item before it.
            after = np.maximum.accumulate(matched)[missing] + 1
            self._codes = np.insert(self._codes, after, sequence[missing])
            self._ids = np.insert(self._ids, after, new)
        return ids

    def _align(self, sequence: Int64) -> Int64:
        """Position in the master of each item of a sequence; -1: none."""
        result = np.full(len(sequence), -1, dtype=np.int64)
        master = self._codes
        shorter = min(len(master), len(sequence))
        differs = np.flatnonzero(master[:shorter] != sequence[:shorter])
        head = int(differs[0]) if len(differs) else shorter
        result[:head] = np.arange(head)
        rest = shorter - head
        tail_differs = np.flatnonzero(
            master[len(master) - rest :][::-1] != sequence[len(sequence) - rest :][::-1]
        )
        tail = int(tail_differs[0]) if len(tail_differs) else rest
        result[len(sequence) - tail :] = np.arange(len(master) - tail, len(master))
        low, high = head, len(sequence) - tail
        master_high = len(master) - tail
        if low < high and low < master_high:
            self._align_core(sequence, result, (low, high), (low, master_high))
        return result

    def _align_core(
        self, sequence: Int64, result: Int64, here: tuple[int, int], there: tuple[int, int]
    ) -> None:
        a = self._codes[there[0] : there[1]].tolist()
        b = sequence[here[0] : here[1]].tolist()
        exact = len(a) * len(b) <= MAX_ALIGN_CELLS
        matcher = SequenceMatcher(None, a, b, autojunk=not exact)
        for block in matcher.get_matching_blocks():
            low = here[0] + block.b
            first = there[0] + block.a
            result[low : low + block.size] = np.arange(first, first + block.size)
