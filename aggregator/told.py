"""Values that texts of a profile tell, as JSON or as Python writes them.

Whatever program ran wrote the texts, so anything may stand there. What cannot be read, nests too
deep or is no number of this world tells nothing: None, never an error. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any, Final

MAX_DEPTH: Final = 100
"""Lists in lists in lists: nobody writes deeper ones, and Python itself ends at a thousand."""
_LARGEST: Final = (1 << 63) - 1
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")


def read_json(text: str) -> Any:
    """A JSON value; None: the text is none."""
    try:
        value = _DECODER.decode(text)
        suspect = "\\" in text or text.count("[") + text.count("{") > MAX_DEPTH
        return _plain(value) if suspect else value
    except (ValueError, RecursionError):
        return None


def read_literal(text: str) -> Any:
    """The value of a Python literal as JSON has it, tuples as lists; None: the text is none."""
    try:
        return _plain(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def read_list(text: str) -> list[Any]:
    """A JSON list; what is none has no elements."""
    value = read_json(text) if text else None
    return value if isinstance(value, list) else []


def read_object(text: str) -> dict[str, Any]:
    """A JSON object; what is none has no fields."""
    value = read_json(text) if text else None
    return value if isinstance(value, dict) else {}


def _whole(digits: str) -> int | None:
    """What no column of 64 bits holds counts nothing."""
    return _in_range(int(digits))


def _in_range(number: int) -> int | None:
    return number if -_LARGEST <= number <= _LARGEST else None


def _fraction(digits: str) -> float | None:
    return _finite(float(digits))


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


_DECODER: Final = json.JSONDecoder(
    parse_int=_whole, parse_float=_fraction, parse_constant=lambda _: None
)


def _plain(value: Any, depth: int = 0) -> Any:
    """The value with nothing in it that JSON, UTF-8 or 64 bits cannot hold.

    Raises:
        ValueError: It nests too deep.
    """
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, list | tuple):
        return [_plain(one, depth + 1) for one in value]
    if isinstance(value, dict):
        return {_plain(str(key)): _plain(one, depth + 1) for key, one in value.items()}
    return _single(value)


def _single(value: object) -> str | float | None:
    """One value; bytes, complex numbers and the like are none that a marker tells."""
    if isinstance(value, str):
        return _HALF_CHARACTER.sub("\ufffd", value)
    if isinstance(value, int):
        return _in_range(value)
    return _finite(value) if isinstance(value, float) else None
