"""Finds the executions of the same op: those at the same position of the step, over all steps.

The instances of a step form a sequence of (path, label, direction). Steps with equal sequences have
equal positions. A step with another sequence is aligned to the most common one, so that an
additional op does not rename the others; additional items that recur get positions of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

from aggregator.profile.arrays import Int64, ordered

MAX_ALIGN_CELLS = 25_000_000
"""Largest product of lengths that is aligned exactly; above it, frequent items are skipped."""
MIN_COMMON_SHARE = 0.5
"""A step with less than this in common with the most common one is not part of the loop."""


@dataclass(frozen=True)
class StepPositions:
    """Position of each item in its step."""

    position: Int64  # Position in the master sequence; -1: none.
    length: int  # Length of the master sequence.


def align_steps(code: Int64, step: Int64, num_steps: int) -> StepPositions:
    """Find the position of each item in the training loop.

    Args:
        code: Code of each item; items are in the order in which they ran.
        step: Step of each item, ``0 <= step < num_steps``, in any order.
        num_steps: Number of steps; step 0 has the items before the first step.
    """
    order = ordered(step)
    bounds = np.searchsorted(step[order], np.arange(num_steps + 1))
    sequences = [code[order[low:high]] for low, high in pairwise(bounds.tolist())]
    groups = _group_equal(sequences)
    # Step 0 is not part of the loop; of equally common sequences the longest is preferred.
    groups.sort(key=lambda members: (-len(members), members == [0], -len(sequences[members[0]])))
    position = np.full(len(code), -1, dtype=np.int64)
    if not groups:
        return StepPositions(position, 0)
    master = _Master(sequences[groups[0][0]])
    for members in groups:
        sequence = sequences[members[0]]
        ids = master.add(sequence, insert=len(members) > 1)
        for member in members:
            position[order[bounds[member] : bounds[member + 1]]] = ids
    return StepPositions(master.ranks(position), len(master))


def align(master: Int64, sequence: Int64) -> Int64:
    """Position in ``master`` of each item of a sequence, by edit distance; -1: none."""
    return _Master(master).align(sequence)


def _group_equal(sequences: list[Int64]) -> list[list[int]]:
    """Return the steps grouped by equal sequences, without empty steps."""
    groups: dict[bytes, list[int]] = {}
    for number, sequence in enumerate(sequences):
        if len(sequence):
            groups.setdefault(sequence.tobytes(), []).append(number)
    return list(groups.values())


class _Master:
    """The most common sequence, with recurring items of others inserted; ids do not change."""

    def __init__(self, sequence: Int64) -> None:
        self._codes = sequence.copy()
        self._ids = np.arange(len(sequence), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._codes)

    def ranks(self, ids: Int64) -> Int64:
        """Return the position in the final order of each id; -1 stays."""
        rank = np.empty(len(self._ids), dtype=np.int64)
        rank[self._ids] = np.arange(len(self._ids))
        return np.where(ids >= 0, rank[np.maximum(ids, 0)], -1)

    def add(self, sequence: Int64, *, insert: bool) -> Int64:
        """Ids of a sequence's items; an item without a counterpart is inserted or gets -1."""
        matched = self.align(sequence)
        if np.count_nonzero(matched >= 0) < MIN_COMMON_SHARE * min(len(sequence), len(self)):
            return np.full(len(sequence), -1, dtype=np.int64)
        ids: Int64 = np.where(matched >= 0, self._ids[np.maximum(matched, 0)], -1)
        missing = np.flatnonzero(matched < 0)
        if insert and len(missing):
            new = np.arange(len(self), len(self) + len(missing), dtype=np.int64)
            ids[missing] = new
            # Each is inserted after the last matched item before it.
            after = np.maximum.accumulate(matched)[missing] + 1
            self._codes = np.insert(self._codes, after, sequence[missing])
            self._ids = np.insert(self._ids, after, new)
        return ids

    def align(self, sequence: Int64) -> Int64:
        """Return the position in the master of each item of a sequence, or -1 if there is none."""
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
