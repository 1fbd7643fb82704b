"""Values as their declarations say: what a damaged database holds in their place is unknown."""

from __future__ import annotations

import math
from typing import Any


def as_text(value: Any) -> str | None:
    """A text; numbers and bytes are written out, for a damaged name still tells rows apart."""
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def as_number(value: Any, *, integer: bool) -> int | float | None:
    """A number, None where there is none; a whole one if whole ones are declared."""
    if isinstance(value, int):
        return value
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    return round(value) if integer else value
