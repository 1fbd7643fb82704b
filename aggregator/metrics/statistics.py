"""Sum, minimum and maximum per group of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.columns import ordered
from aggregator.profile import Int32, Int64


@dataclass(frozen=True)
class GroupOrder:
    """Rows sorted by group, ready for several columns.

    Attributes:
        groups: The groups that have rows, ascending.
        counts: Rows per group.
        order: Rows sorted by group.
        heads: First sorted row of each group.
    """

    groups: Int64
    counts: Int64
    order: Int64
    heads: Int64

    @staticmethod
    def of(group: Int32 | Int64) -> GroupOrder:
        """Sort rows by their group."""
        if not len(group):
            none = np.empty(0, dtype=np.int64)
            return GroupOrder(none, none, none, none)
        order = ordered(group)
        values = group[order]
        heads = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
        counts = np.diff(np.concatenate([heads, [len(group)]]))
        return GroupOrder(values[heads].astype(np.int64), counts, order, heads)

    def sum(self, values: Int64) -> Int64:
        """Sum per group; exact, unlike weights of ``bincount``."""
        if not len(self.heads):
            return np.empty(0, dtype=np.int64)
        result: Int64 = np.add.reduceat(values[self.order], self.heads)
        return result

    def minimum(self, values: Int64) -> Int64:
        """Least value per group."""
        if not len(self.heads):
            return np.empty(0, dtype=np.int64)
        result: Int64 = np.minimum.reduceat(values[self.order], self.heads)
        return result

    def maximum(self, values: Int64) -> Int64:
        """Greatest value per group."""
        if not len(self.heads):
            return np.empty(0, dtype=np.int64)
        result: Int64 = np.maximum.reduceat(values[self.order], self.heads)
        return result

    def statistics(self, name: str, values: Int64) -> dict[str, Int64]:
        """The three as columns ``<name>_sum``, ``<name>_min``, ``<name>_max``."""
        return {
            f"{name}_sum": self.sum(values),
            f"{name}_min": self.minimum(values),
            f"{name}_max": self.maximum(values),
        }


def percent(part: int | float, whole: int | float) -> float:
    """Share of a whole, 0 to 100, rounded to six places as DLProf stores it."""
    return round(100.0 * part / whole, 6) if whole else 0.0
