"""Sum, minimum and maximum per group of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.profile.arrays import Int64, Integers, ordered, parts_of, run_heads


@dataclass(frozen=True)
class GroupOrder:
    """Rows sorted by group, ready for several columns."""

    groups: Int64  # The groups that have rows, ascending.
    counts: Int64  # Rows per group.
    order: Int64  # Rows sorted by group.
    heads: Int64  # First sorted row of each group.

    @staticmethod
    def of(group: Integers) -> GroupOrder:
        """Sort rows by their group."""
        order = ordered(group)
        return GroupOrder.along(order, group[order])

    @staticmethod
    def along(order: Int64, group: Integers) -> GroupOrder:
        """Rows in an order in which those of a group are adjacent; ``group`` has the same order."""
        if not len(group):
            none = np.empty(0, dtype=np.int64)
            return GroupOrder(none, none, none, none)
        heads = run_heads(group)
        counts = np.diff(np.append(heads, len(group)))
        return GroupOrder(group[heads].astype(np.int64), counts, order, heads)

    def sum(self, values: Integers) -> Int64:
        """Return the sum per group; exact, unlike weights of ``bincount``."""
        return self._reduced(np.add, values[self.order])

    def minimum(self, values: Integers) -> Int64:
        """Return the least value per group."""
        return self._reduced(np.minimum, values[self.order])

    def maximum(self, values: Integers) -> Int64:
        """Return the largest value per group."""
        return self._reduced(np.maximum, values[self.order])

    def statistics(self, name: str, values: Int64) -> dict[str, Int64]:
        """Three columns ``<name>_sum``, ``<name>_min``, ``<name>_max``: values are sorted once."""
        by_group = values[self.order]
        return {
            f"{name}_sum": self._reduced(np.add, by_group),
            f"{name}_min": self._reduced(np.minimum, by_group),
            f"{name}_max": self._reduced(np.maximum, by_group),
        }

    def _reduced(self, reduction: np.ufunc, by_group: Integers) -> Int64:
        if not len(self.heads):
            return np.empty(0, dtype=np.int64)
        result: Int64 = reduction.reduceat(by_group, self.heads).astype(np.int64, copy=False)
        return result


class Groups:
    """Many rows by group, sorted a part at a time: a part's columns fit the cache.

    Attributes:
        groups: The groups that have rows, ascending.
        counts: Rows per group.
    """

    def __init__(self, group: Integers) -> None:
        parts = parts_of(0, len(group)) or [slice(0, 0)]
        self._parts = [(rows, GroupOrder.of(group[rows])) for rows in parts]
        self._joined = GroupOrder.of(np.concatenate([part.groups for _, part in self._parts]))
        self.groups = self._joined.groups
        self.counts = self._joined.sum(np.concatenate([part.counts for _, part in self._parts]))

    def sum(self, values: Integers) -> Int64:
        """Return the sum per group; exact, unlike weights of ``bincount``."""
        return self._joined.sum(np.concatenate([part.sum(values[at]) for at, part in self._parts]))

    def statistics(self, name: str, values: Int64) -> dict[str, Int64]:
        """Return three columns ``<name>_sum``, ``<name>_min``, ``<name>_max``."""
        found = [part.statistics(name, values[rows]) for rows, part in self._parts]
        whole = (self._joined.sum, self._joined.minimum, self._joined.maximum)
        return {
            column: reduce(np.concatenate([sums[column] for sums in found]))
            for column, reduce in zip(found[0], whole, strict=True)
        }


def percent(part: int | float, whole: int | float) -> float:
    """Return the share of a whole, 0 to 100, rounded to six places as DLProf stores it."""
    return round(100.0 * part / whole, 6) if whole else 0.0
