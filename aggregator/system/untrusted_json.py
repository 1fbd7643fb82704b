"""Parses values in texts of a profile, written as JSON or as Python literals.

The profiled program wrote the texts, so they may hold anything. A value that cannot be parsed, is
nested too deeply or is not a finite number gives None, never an error. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any, Final

MAX_DEPTH: Final = 100
"""Limit of nested lists and objects; Python's own is about a thousand."""
_LARGEST: Final = (1 << 63) - 1
_MOST_DIGITS: Final = len(str(_LARGEST))
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")


def read_count(text: str) -> int | None:
    """A whole number from 0 on in ASCII digits that 64 bits hold; None: the text is anything else.

    ``str.isdigit`` alone accepts texts that ``int`` rejects, such as a superscript two.
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return _in_range(int(text)) if is_number else None


def read_json(text: str) -> Any:
    """Parse a JSON value, or None if the text is not JSON."""
    try:
        value = _DECODER.decode(text)
        suspect = "\\" in text or text.count("[") + text.count("{") > MAX_DEPTH
        return _plain(value) if suspect else value
    except (ValueError, RecursionError):
        return None


def read_literal(text: str) -> Any:
    """Parse a Python literal to a JSON value, tuples as lists, or None if it is not a literal."""
    try:
        return _plain(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def read_list(text: str) -> list[Any]:
    """Parse a JSON list; returns [] if the text is not a list."""
    value = read_json(text) if text else None
    return value if isinstance(value, list) else []


def read_object(text: str) -> dict[str, Any]:
    """Parse a JSON object; returns {} if the text is not an object."""
    value = read_json(text) if text else None
    return value if isinstance(value, dict) else {}


def _whole(digits: str) -> int | None:
    """Replace what no column of 64 bits holds."""
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
    """Return the value with nothing in it that JSON, UTF-8 or 64 bits cannot hold.

    Raises:
        ValueError: It nests too deep.
    """
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_plain(str(key)): _plain(item, depth + 1) for key, item in value.items()}
    return _single(value)


def _single(value: object) -> str | float | None:
    """Return a single value; None for bytes, complex numbers and other types that JSON lacks."""
    if isinstance(value, str):
        return _HALF_CHARACTER.sub("\ufffd", value)
    if isinstance(value, int):
        return _in_range(value)
    return _finite(value) if isinstance(value, float) else None
