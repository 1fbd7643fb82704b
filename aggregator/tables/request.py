"""Parses the query string of a list; unknown parameters are errors, never ignored."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from aggregator.errors import InvalidValueError, UnknownFilterError, UnknownOrderingError
from aggregator.system.untrusted_json import read_count
from aggregator.tables.spec import OPERATORS, Column, Kind, TableSpec
from aggregator.texts import say

PAGE_SIZES = (10, 25, 50, 100, 200)
DEFAULT_PAGE_SIZE = 50
#: Far beyond any table, and small enough that page times size stays a 64-bit number.
MAX_PAGE = 10**9
MAX_INTEGER = 2**63 - 1

PAGING = ("page", "page_size")
SELECTING = ("ordering", "search")

_TRUE = frozenset({"1", "true"})
_FALSE = frozenset({"0", "false"})

Scalar = str | int | float


@dataclass(frozen=True)
class OrderTerm:
    """One column to sort by."""

    column: Column
    descending: bool

    def __str__(self) -> str:
        return f"-{self.column.name}" if self.descending else self.column.name


@dataclass(frozen=True)
class Filter:
    """One condition; ``values`` holds several only for the operator ``in``."""

    column: Column
    operator: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class ListQuery:
    """A parsed request for a list."""

    page: int  # Counted from 1.
    page_size: int  # Rows of a page.
    ordering: tuple[OrderTerm, ...]  # Asked for, or the table's default; the key is not part of it.
    search: str  # Substring looked for in all text columns; empty: none.
    filters: tuple[Filter, ...]  # Conditions that a row must all fulfil.
    # What the rows of the tables of ``spec.among`` must fulfil, by the parameter.
    among: Mapping[str, ListQuery] = field(default_factory=dict)

    @property
    def ordering_text(self) -> str:
        """The ordering as a client writes it."""
        return ",".join(str(term) for term in self.ordering)


def parse_list_query(
    spec: TableSpec, params: Mapping[str, str], *, besides: Iterable[str] = ()
) -> ListQuery:
    """Read a list's query string.

    Args:
        spec: The table that is asked.
        params: Name and value of each query parameter.
        besides: Further parameters that the caller reads itself (``domain``, ``format``).

    Returns:
        The request.

    Raises:
        UnknownFilterError: A parameter that the table does not have.
        UnknownOrderingError: A column that the table does not have.
        InvalidValueError: A value that does not fit its parameter.
    """
    known = _filters_of(spec)
    followed = [among.parameter for among in spec.among]
    check_parameters(params, [*PAGING, *SELECTING, *known, *followed, *besides])
    return ListQuery(
        page=_whole(params, "page", 1, MAX_PAGE),
        page_size=_page_size(params),
        ordering=_ordering(spec, params.get("ordering", "")),
        search=params.get("search", "").strip(),
        filters=tuple(
            _filter(name, column, operator, params[name])
            for name, (column, operator) in known.items()
            if name in params
        ),
        among={
            among.parameter: _among(among.table, params[among.parameter])
            for among in spec.among
            if among.parameter in params
        },
    )


def _among(table: TableSpec, text: str) -> ListQuery:
    given = dict(parse_qsl(text, keep_blank_values=True))
    check_parameters(given, ["search", *_filters_of(table)])
    return parse_list_query(table, given)


def check_parameters(params: Mapping[str, str], known: Iterable[str]) -> None:
    """Refuse unknown query parameters.

    Raises:
        UnknownFilterError: The first such parameter.
    """
    names = sorted(set(known))
    for name in params:
        if name not in names:
            raise UnknownFilterError(
                say("There is no parameter or filter named {name!r} here.", name=name),
                hint=_closest(name, names),
                parameter=name,
                known=list(names),
            )


def _filters_of(spec: TableSpec) -> dict[str, tuple[Column, str]]:
    return {
        f"{column.name}__{operator}" if operator else column.name: (column, operator)
        for column in spec.columns
        for operator in OPERATORS[column.kind]
    }


def _closest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return say("Did you mean {names}?", names=", ".join(close))
    return say("Known: {names}.", names=", ".join(names))


def _whole(params: Mapping[str, str], name: str, default: int, highest: int) -> int:
    raw = params.get(name)
    if raw is None:
        return default
    number = read_count(raw)
    if number is None or not 1 <= number <= highest:
        raise InvalidValueError(
            say(
                "{name} must be a whole number from 1 to {highest}, not {raw!r}.",
                name=name,
                highest=highest,
                raw=raw,
            ),
            parameter=name,
        )
    return number


def _page_size(params: Mapping[str, str]) -> int:
    size = _whole(params, "page_size", DEFAULT_PAGE_SIZE, max(PAGE_SIZES))
    if size not in PAGE_SIZES:
        allowed = ", ".join(map(str, PAGE_SIZES))
        raise InvalidValueError(
            say("page_size must be one of {allowed}, not {size}.", allowed=allowed, size=size),
            parameter="page_size",
        )
    return size


def _ordering(spec: TableSpec, raw: str) -> tuple[OrderTerm, ...]:
    terms = [term.strip() for term in raw.split(",") if term.strip()] or spec.default_ordering
    ordering: dict[str, OrderTerm] = {}
    for term in terms:
        name = term.removeprefix("-")
        column = spec.by_name.get(name)
        if column is None:
            names = list(spec.by_name)
            raise UnknownOrderingError(
                say("{title} cannot be sorted by {name!r}.", title=spec.title, name=name),
                hint=_closest(name, names),
                column=name,
                known=list(names),
            )
        # The first mention decides; a second one could not change the order.
        ordering.setdefault(name, OrderTerm(column, descending=term.startswith("-")))
    return tuple(ordering.values())


def _filter(name: str, column: Column, operator: str, raw: str) -> Filter:
    parts = raw.split(",") if operator == "in" else [raw]
    return Filter(column, operator, tuple(_value(name, column, part) for part in parts))


def _value(name: str, column: Column, raw: str) -> Scalar:
    if column.kind is Kind.BOOLEAN:
        return _boolean(name, raw)
    if column.kind is Kind.NUMBER:
        return _number(name, raw)
    if column.kind is Kind.IDENTIFIER and column.integer and raw.lstrip("-").isdecimal():
        return _number(name, raw)
    return raw


def _boolean(name: str, raw: str) -> int:
    lowered = raw.lower()
    if lowered in _TRUE:
        return 1
    if lowered in _FALSE:
        return 0
    raise InvalidValueError(
        say("{name} must be 1 or 0, not {raw!r}.", name=name, raw=raw), parameter=name
    )


def _number(name: str, raw: str) -> int | float:
    """Keep an integer one: a float would lose the last digits of a time in nanoseconds."""
    try:
        value: int | float = int(raw)
    except ValueError:
        try:
            value = float(raw)
        except ValueError:
            value = math.nan
    if not math.isfinite(value) or abs(value) > MAX_INTEGER:
        raise InvalidValueError(
            say("{name} must be a number, not {raw!r}.", name=name, raw=raw), parameter=name
        )
    return value
