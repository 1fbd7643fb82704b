"""Values of tables as the API shows them: whatever a database holds, of the kind of the column."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aggregator.tables.sql import as_number


@pytest.mark.parametrize(
    ("value", "integer", "shown"),
    [
        (3, True, 3),
        (3, False, 3.0),
        (2.6, True, 3),
        (2.5, False, 2.5),
        (math.inf, True, None),
        (math.nan, False, None),
        ("3", True, None),
        (b"3", False, None),
    ],
)
def test_a_number_is_of_the_kind_of_its_column(value: Any, integer: bool, shown: Any) -> None:
    found = as_number(value, integer=integer)
    assert (found, type(found)) == (shown, type(shown))
