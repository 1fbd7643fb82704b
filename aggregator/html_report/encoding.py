"""Rows as JSON by columns, every text once; JSON as a block of the file.

A profile repeats few texts often, and compression sees only 32 KB back: texts are numbered.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aggregator.tables.connection import plain_tree
from aggregator.tables.spec import Column, Kind, TableSpec
from aggregator.texts import translate

_BEST_COMPRESSION = 9


class Strings:
    """All texts of a report: those of the rows by their place, sentences with translations."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._sentences: set[str] = set()

    def place(self, text: str) -> int:
        """Return the number of a text."""
        return self._places.setdefault(text, len(self._places))

    def all(self) -> list[str]:
        """Return the texts in the order of their numbers."""
        return list(self._places)

    def keep_sentences(self, sentences: Iterable[str]) -> None:
        """Collect the sentences about tables, to be translated."""
        self._sentences.update(sentences)

    def translations(self, language: str) -> dict[str, str]:
        """Return the sentences in a language, by their English words."""
        return {str(text): str(translate(text, language)) for text in sorted(self._sentences)}


def is_text(column: Column) -> bool:
    """Return whether the values of a column are texts."""
    if column.kind is Kind.IDENTIFIER:
        return not column.integer
    return column.kind in {Kind.TEXT, Kind.CHOICE}


def encode_rows(
    spec: TableSpec, rows: Sequence[Mapping[str, Any]], strings: Strings
) -> list[list[Any] | dict[str, list[int]]]:
    """Return the values of each column.

    Texts are their numbers, yes and no are 1 and 0, unknown is null. A column that mostly rises,
    such as points in time, is ``{"steps": [...]}``: the differences between neighbors.
    """
    return [
        _shorter(_values(column, [row[column.name] for row in rows], strings))
        for column in spec.columns
    ]


def _values(column: Column, values: list[Any], strings: Strings) -> list[Any]:
    if column.is_sentence:
        strings.keep_sentences(value for value in values if value is not None)
    if is_text(column):
        # An older database may hold a number where a text belongs.
        return [None if value is None else strings.place(str(value)) for value in values]
    if column.kind is Kind.BOOLEAN:
        return [None if value is None else int(value) for value in values]
    return values


def _shorter(values: list[Any]) -> list[Any] | dict[str, list[int]]:
    if not all(isinstance(value, int) for value in values):
        return values
    steps = [value - before for before, value in zip([0, *values], values, strict=False)]
    is_shorter = sum(len(str(step)) for step in steps) < 0.7 * sum(len(str(n)) for n in values)
    return {"steps": steps} if is_shorter else values


def describe(spec: TableSpec) -> dict[str, Any]:
    """Return what the page needs to sort, search and filter the rows of a table."""
    return {
        "name": spec.name,
        "ordering": ",".join(spec.default_ordering),
        "columns": [
            {
                "name": column.name,
                "kind": str(column.kind),
                "is_text": is_text(column),
                "is_real": column.kind is Kind.NUMBER and not column.integer,
                "is_searched": column.is_searched,
                "is_sentence": column.is_sentence,
            }
            for column in spec.columns
        ],
    }


def pack(value: Any) -> str:
    """Return the JSON, compressed, as text that ends no HTML element."""
    # A text may hold half of a surrogate pair, which ASCII JSON can encode and UTF-8 cannot.
    try:
        plain = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError):
        # A damaged database: infinities and bytes where numbers and texts belong.
        plain = json.dumps(plain_tree(value), separators=(",", ":"), allow_nan=False)
    # Without a time stamp, so that the same data gives the same bytes.
    packed = gzip.compress(plain.encode("ascii"), _BEST_COMPRESSION, mtime=0)
    return base64.b64encode(packed).decode("ascii")
