"""Answers of limited size: JSON text in which long names and surplus rows are cut, and say so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.tables.connection import plain_tree

DEFAULT_BYTES: Final = 4_000
MOST_BYTES: Final = 200_000
LONGEST_TEXT: Final = 160
"""Characters of a name in an answer of the default size; kernels have names of thousands."""

Answer = dict[str, Any]


def to_text(answer: Answer, max_bytes: int) -> str:
    """An answer as JSON of at most ``max_bytes`` bytes.

    Lists at the top level lose their last rows, the longest list first, and ``left_out`` counts
    them; texts are clipped, more strongly when that is not enough.
    """
    limit = min(max(max_bytes, 500), MOST_BYTES)
    plain = plain_tree(answer)
    longest = LONGEST_TEXT if limit <= DEFAULT_BYTES else limit
    while True:
        # Texts that are no cells of rows are few, and sentences.
        clipped = {name: _clipped(part, _most(part, longest), name) for name, part in plain.items()}
        text = _without_surplus(clipped, limit)
        if len(text.encode()) <= limit or longest < 10:
            return text
        longest //= 2


def _most(value: Any, longest: int) -> int:
    return 4 * longest if isinstance(value, str) else longest


def _dumped(answer: Any) -> str:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def _without_surplus(answer: Answer, limit: int) -> str:
    left_out: dict[str, int] = {}
    text = _dumped(answer)
    while (size := len(text.encode())) > limit:
        sizes = {name: len(_dumped(part)) for name, part in _lists(answer).items()}
        if not sizes:
            break
        name = max(sizes, key=lambda item: sizes[item])
        rows = answer[name]
        each = max(sizes[name] // len(rows), 1)
        surplus = min(max((size - limit) // each, 1), len(rows))
        answer = {**answer, name: rows[:-surplus]}
        left_out[name] = left_out.get(name, 0) + surplus
        answer["left_out"] = left_out
        text = _dumped(answer)
    return text


def _lists(answer: Answer) -> dict[str, list[Any]]:
    keep = {"columns", "left_out"}
    return {
        name: part
        for name, part in answer.items()
        if isinstance(part, list) and part and name not in keep
    }


def _clipped(value: Any, longest: int, name: str = "") -> Any:
    if isinstance(value, str):
        # An address that lost its end is of no use.
        is_whole = len(value) <= longest or name == "link"
        return value if is_whole else f"{value[: longest - 1]}…"
    if isinstance(value, Mapping):
        return {key: _clipped(part, longest, str(key)) for key, part in value.items()}
    if isinstance(value, list):
        return [_clipped(part, longest) for part in value]
    return round(value, 4) if isinstance(value, float) else value


def known_values(found: Mapping[str, Any]) -> Answer:
    """An object without its unknown values; why they are unknown is kept, once for each reason."""
    values = {name: value for name, value in found.items() if name != "unknown"}
    reasons: dict[str, list[str]] = {}
    for name, reason in dict(found.get("unknown", {})).items():
        reasons.setdefault(str(reason), []).append(name)
    kept = {name: value for name, value in values.items() if value is not None}
    return {**kept, **({"unknown": reasons} if reasons else {})}


def as_columns(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Answer:
    """Rows as lists, with the names of the columns once."""
    return {"columns": list(columns), "rows": [[row[name] for name in columns] for row in rows]}
