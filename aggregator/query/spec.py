"""What a table or an object of the API is made of, said once.

Everything else (SQL, filters, sorting, export, OpenAPI) is derived from these declarations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from aggregator.texts import say


class Kind(StrEnum):
    """What a column holds, which decides the filters that it offers."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    IDENTIFIER = "identifier"


#: Filter suffixes of each kind; the empty suffix is equality.
OPERATORS: dict[Kind, tuple[str, ...]] = {
    Kind.TEXT: ("icontains", "startswith"),
    Kind.NUMBER: ("gte", "lte"),
    Kind.BOOLEAN: ("",),
    Kind.CHOICE: ("in", "icontains"),
    Kind.IDENTIFIER: ("", "in", "icontains"),
}

NOT_IN_DATABASE = say(
    "This database does not hold it: it was written by an older or another DLProf."
)
#: Why a value is unknown, by the flag of the profile that says that nobody measured it.
NOT_MEASURED = {
    "io_measured": say(
        "I/O is not told apart: the calls that read and write files are not taken from a profile."
    ),
    "dataloader_measured": say("The profile holds no ranges of a data loader."),
    "has_ops": say("The profile holds no ops: which kernels could use Tensor Cores is not known."),
}

_SEARCHED = frozenset({Kind.TEXT, Kind.CHOICE, Kind.IDENTIFIER})
_COLUMN_REFERENCE = re.compile(r"\b([a-z]\w*)\.([a-z_]\w*)\b")


@dataclass(frozen=True)
class Column:
    """One field of a row.

    Attributes:
        name: Name in the API, with its unit as suffix.
        sql: Expression over the aliases of the source, every column written ``alias.column``.
        kind: Decides filters, search and how the value is converted.
        description: One sentence for the API's documentation.
        integer: For numbers: whole numbers only.
        nullable: NULL means unknown or not applicable; such rows come last in either direction.
        reason: Why the value is unknown when the database has no such view or column.
        measured: What must have been measured for the value to mean anything, a key of
            ``NOT_MEASURED``; empty: nothing in particular.
        is_sentence: The value is a sentence of ours, to be said in the reader's language.
    """

    name: str
    sql: str
    kind: Kind
    description: str
    integer: bool = True
    nullable: bool = False
    reason: str = NOT_IN_DATABASE
    measured: str = ""
    is_sentence: bool = False

    @property
    def is_searched(self) -> bool:
        """Whether the free text search looks into this column."""
        return self.kind in _SEARCHED

    @property
    def filters(self) -> tuple[str, ...]:
        """The query parameters that filter by this column."""
        return tuple(
            f"{self.name}__{operator}" if operator else self.name
            for operator in OPERATORS[self.kind]
        )

    @property
    def references(self) -> tuple[tuple[str, str], ...]:
        """The (alias, column) pairs that the expression reads."""
        return tuple(_COLUMN_REFERENCE.findall(self.sql))


@dataclass(frozen=True)
class Join:
    """A view that may be absent, joined to the main view by at most one row.

    Attributes:
        view: The view.
        alias: Its alias in the expressions.
        on: What its rows have in common with those of the main view.
        has_all: Each row of the main view has one. SQLite then looks each up; to join what may be
            missing it first makes some views in full, with the rows of all aggregations.
    """

    view: str
    alias: str
    on: str
    has_all: bool = False


@dataclass(frozen=True)
class Source:
    """Where the rows come from.

    Attributes:
        view: The main view; without it the table is unknown as a whole.
        alias: Its alias in the expressions.
        joins: Further views, left-joined.
        where: Condition with named parameters (``:aggr_id``, ``:domain``, ...).
    """

    view: str
    alias: str = "t"
    joins: tuple[Join, ...] = ()
    where: str = "t.aggr_id = :aggr_id AND t.domain_name = :domain"

    @property
    def aliases(self) -> dict[str, str]:
        """View of each alias."""
        return {self.alias: self.view} | {join.alias: join.view for join in self.joins}


@dataclass(frozen=True)
class Part:
    """What many rows of a narrow view share: few rows, found by a key.

    Attributes:
        view: The view.
        alias: Its alias in the expressions.
        key: Its column, and that of the narrow view which refers to it.
    """

    view: str
    alias: str
    key: str


@dataclass(frozen=True)
class Narrow:
    """A narrow view with a row for each row of the table, which is asked which rows a page has.

    Only those are then read in full. It matters where a table may have millions of rows: names are
    compared once for each distinct one, and nothing is joined to rows that nobody will see.

    Attributes:
        view: The narrow view; a database without it is asked in the ordinary way. It holds the
            rows of the default domain.
        row_id: Its column that numbers the rows, as the table's own row id does.
        where: Condition with named parameters.
        parts: What its rows refer to.
        sql: Expression of each column of the table, over the alias ``s`` or that of one part.
        orders: Columns that sort as another expression does, which is quicker to sort by.
    """

    view: str
    row_id: str
    where: str
    parts: tuple[Part, ...]
    sql: Mapping[str, str]
    orders: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableSpec:
    """One table of the API.

    Attributes:
        name: Last part of its address, and stem of an export's file name.
        title: For people.
        source: Where its rows come from.
        columns: Its fields, in order.
        default_ordering: As a client would write it (``-gpu_time_ns``).
        key: Columns of the API that make any order total: no two rows agree in all of them,
            or such rows look the same in every column.
        row_id: Expression that numbers the rows of the main view, where it has such a column; it
            then replaces ``key``, because (column, row id) is what the database is indexed by.
        fallback: The same table read from the views that every DLProf database has; used when
            the main view of ``source`` is absent.
        narrow: Where the rows of a page are found, if not in the main view.
    """

    name: str
    title: str
    source: Source
    columns: tuple[Column, ...]
    default_ordering: tuple[str, ...]
    key: tuple[str, ...]
    row_id: str = "t.row_id"
    fallback: TableSpec | None = None
    narrow: Narrow | None = None
    by_name: dict[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})
        unknown = [
            name
            for name in (*self.key, *(term.removeprefix("-") for term in self.default_ordering))
            if name not in self.by_name
        ]
        if unknown:
            raise ValueError(f"table {self.name}: no column named {', '.join(unknown)}")


@dataclass(frozen=True)
class Field:
    """One value of an object.

    Attributes:
        name: Path in the reply; a dot makes a nested object.
        view: Where the value is, one row per aggregation and domain.
        column: Its column.
        description: One sentence for the API's documentation.
        type: JSON type.
        measured: As for a column.
        is_rest: The value is what is left of the column to 100 %.
    """

    name: str
    view: str
    column: str
    description: str
    type: str = "integer"
    measured: str = ""
    is_rest: bool = False


@dataclass(frozen=True)
class ObjectSpec:
    """One object of an aggregation: each of its fields is one column of a view."""

    name: str
    title: str
    fields: tuple[Field, ...]


def text(name: str, sql: str, description: str, *, nullable: bool = False) -> Column:
    """A column of free text."""
    return Column(name, sql, Kind.TEXT, description, nullable=nullable)


def sentence(name: str, sql: str, description: str) -> Column:
    """A column of sentences of ours, said in the reader's language; null: there is none."""
    return Column(name, sql, Kind.TEXT, description, nullable=True, is_sentence=True)


def choice(name: str, sql: str, description: str, *, nullable: bool = False) -> Column:
    """A column of few different texts."""
    return Column(name, sql, Kind.CHOICE, description, nullable=nullable)


def identifier(name: str, sql: str, description: str, *, integer: bool = False) -> Column:
    """A column whose value names something; ``integer`` when it does so by a number."""
    return Column(name, sql, Kind.IDENTIFIER, description, integer=integer)


def number(name: str, sql: str, description: str, *, nullable: bool = False) -> Column:
    """A column of whole numbers; times are in nanoseconds."""
    return Column(name, sql, Kind.NUMBER, description, nullable=nullable)


def real(name: str, sql: str, description: str, *, nullable: bool = False) -> Column:
    """A column of numbers with a fraction."""
    return Column(name, sql, Kind.NUMBER, description, integer=False, nullable=nullable)


def boolean(name: str, sql: str, description: str, *, nullable: bool = False) -> Column:
    """A column of yes or no."""
    return Column(name, sql, Kind.BOOLEAN, description, nullable=nullable)
