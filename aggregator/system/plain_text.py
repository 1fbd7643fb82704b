"""Text for terminals and logs: what names of a profile hold is shown, and never acted on."""

from __future__ import annotations

import re
from typing import Final

#: Control characters, marks that turn the direction of writing, other ends of lines, half
#: characters. A terminal would obey the first, a reader would be fooled by the others.
_ACTING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
#: A spreadsheet takes a cell that begins so for a formula.
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
_ACTING_OR_BREAK: Final = re.compile(rf"[\t\n]|{_ACTING.pattern}")


def escape_control_characters(text: str) -> str:
    """Text for a terminal; lines and tabs stay, anything else that acts is written out."""
    return _ACTING.sub(_written_out, text)


def on_one_line(text: str) -> str:
    """Return the same without ends of lines: nothing in it can begin a line of its own."""
    return _ACTING_OR_BREAK.sub(_written_out, text)


def escape_formula(text: str) -> str:
    """Return the text for a cell that a spreadsheet must not compute."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _written_out(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
