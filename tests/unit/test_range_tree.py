"""Units inside other units."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from aggregator.correlate.range_tree import outermost_wrappers
from aggregator.frameworks.meaning import RangeKind


def test_the_first_range_of_a_profile_may_be_the_outermost_wrapper() -> None:
    kinds = [RangeKind.WRAPPER, RangeKind.WRAPPER, RangeKind.OP, RangeKind.OP, RangeKind.OP]
    tree: Any = SimpleNamespace(kind=np.array(kinds))
    # 0 has 1, which has 2; 3, in no wrapper, has 4.
    inner, around = np.array([1, 2, 4]), np.array([0, 1, 3])

    assert outermost_wrappers(tree, inner, around).tolist() == [0, 0, -1]
