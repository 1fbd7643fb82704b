"""Declarations of the tables and objects of the API.

Everything else (SQL, filters, sorting, export, OpenAPI) is derived from these declarations.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, TypeAlias, TypedDict, Unpack

from aggregator.texts import say


class Kind(StrEnum):
    """The kind of a column, which determines its filters."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    IDENTIFIER = "identifier"


#: Filter suffixes of each kind; the empty suffix is equality.
OPERATORS: dict[Kind, tuple[str, ...]] = {
    Kind.TEXT: ("", "icontains", "startswith"),
    Kind.NUMBER: ("gte", "lte"),
    Kind.BOOLEAN: ("",),
    Kind.CHOICE: ("in", "icontains"),
    Kind.IDENTIFIER: ("", "in", "icontains"),
}

Record: TypeAlias = dict[str, Any]
"""A row of a table or an object: its values by the names of columns or fields."""

NOT_IN_DATABASE = say(
    "This database does not contain it: it was written by an older or another DLProf."
)
#: Why a value is unknown, by the flag of the profile for values that were not measured.
NOT_MEASURED = {
    "io_measured": say("I/O not recorded (Nsight Systems with -t osrt does)."),
    "dataloader_measured": say("The profile contains no ranges of a data loader."),
    "has_ops": say("The profile contains no ops: which kernels could use Tensor Cores is unknown."),
}

#: Why the use of Tensor Cores is unknown.
IN_GRAPHS = say("CUDA graphs were recorded as a whole: what their kernels did is unknown.")

#: Headers on the page of columns whose name does not make a good one.
TITLES = {
    "aligned_by": "Clock aligned by",
    "api_start_ns": "Kernel timestamp",
    "arithmetic_intensity": "Intensity",
    "bound": "Bound by",
    "collective_count": "Collectives",
    "collective_name": "Collective",
    "communicator": "Group",
    "flops": "Operations",
    "gbytes_per_second": "GB/s",
    "group_name": "Group",
    "host_name": "Host",
    "is_bad_data_type": "Type without TC",
    "is_profiled": "Aggregated",
    "iteration_index": "Iteration",
    "kept_waiting_ns": "Delay caused",
    "kernel_count": "Kernels",
    "kernel_long_name": "Long kernel name",
    "left_time_ns": "Time lost vs. roofline",
    "memory_total_bytes": "Memory (GB)",
    "mfu_pct": "Model FLOPs utilization (%)",
    "mfu_at_least_pct": "Model FLOPs utilization at least (%)",
    "hfu_pct": "Hardware FLOPs utilization (%)",
    "non_tc_duration_ns": "Not TC",
    "graph_duration_ns": "CUDA graphs",
    "num_ops_using_tc": "Using TC",
    "num_tc_eligible_ops": "TC eligible",
    "peak_pct": "Share of peak (%)",
    "peak_reason": "Why above 100 %",
    "rank_count": "Ranks",
    "sequence": "Call",
    "source_file": "File",
    "source_line": "Program line",
    "start_time_ns": "Start",
    "stop_time_ns": "End",
    "stream_id": "Stream",
    "tc_kernel_count": "TC kernels",
    "tflops_per_second": "TFLOP/s",
    "tflops_per_second_per_gpu": "TFLOP/s per GPU",
    "total_kernel_count": "Total kernels",
    "unmatched_count": "Unmatched",
    "unknown_reason": "Why unknown",
    "uses_tc": "Using TC",
}
_ACRONYMS = {"gpu": "GPU", "cpu": "CPU", "tc": "TC", "id": "ID", "sm": "SM", "api": "API"}
_ACRONYMS |= {"io": "I/O", "flops": "FLOPs"}
_UNIT_SUFFIXES = {"_ns": "", "_duration": "", "_pct": " (%)", "_bytes": " (GB)"}
_OF_A_CALL = ("_avg_ns", "_min_ns", "_max_ns")

_SEARCHED = frozenset({Kind.TEXT, Kind.CHOICE, Kind.IDENTIFIER})
_COLUMN_REFERENCE = re.compile(r"\b([a-z]\w*)\.([a-z_]\w*)\b")


@dataclass(frozen=True)
class Column:
    """One field of a row."""

    name: str  # Name in the API, with its unit as suffix.
    sql: str  # Expression over the aliases of the source, every column written ``alias.column``.
    kind: Kind  # Decides filters, search and how the value is converted.
    description: str  # One sentence for the API's documentation.
    integer: bool = True  # For numbers: whole numbers only.
    # NULL means unknown or not applicable; such rows come last in either direction.
    nullable: bool = False
    # Why the value is unknown when the database has no such view or column.
    reason: str = NOT_IN_DATABASE
    # What must have been measured for the value to mean anything, a key of ``NOT_MEASURED``; empty:
    # nothing in particular.
    measured: str = ""
    # The value is a sentence of this project, shown in the reader's language.
    is_sentence: bool = False
    title: str = ""  # Header on the page; empty: made of the name.
    unit: str = ""  # Unit on the page of a time.
    when_null: str = ""  # What null means on the page, where the value is not applicable.
    # The value adds up the aggregated iterations: the page shows it per step, or in total.
    is_sum: bool = False

    @property
    def heading(self) -> str:
        """Header on the page: ``gpu_time_avg_ns`` is "GPU time avg", unless declared otherwise."""
        if title := self.title or TITLES.get(self.name):
            return title
        stem, sign = self.name.removeprefix("num_"), ""
        for suffix, shown in _UNIT_SUFFIXES.items():
            if stem.endswith(suffix):
                stem, sign = stem.removesuffix(suffix), sign or shown
        text = " ".join(_ACRONYMS.get(word, word) for word in stem.split("_"))
        return text[0].upper() + text[1:] + sign

    @property
    def shown_unit(self) -> str:
        """Unit of a time on the page: ms, or µs for a single call; empty for other values."""
        if not self.name.endswith("_ns"):
            return ""
        return self.unit or ("µs" if self.name.endswith(_OF_A_CALL) else "ms")

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
    """A view that may be absent, joined to the main view by at most one row."""

    view: str  # The view.
    alias: str  # Its alias in the expressions.
    on: str  # What its rows have in common with those of the main view.
    # Each row of the main view has one. SQLite then looks each up; to join what may be missing it
    # first makes some views in full, with the rows of all aggregations.
    has_all: bool = False
    # No index of the file serves ``on``: SQLite indexes a copy of the rows of the aggregation, once
    # for each query. Looking through them for each row takes the square of their number.
    is_copied: bool = False


@dataclass(frozen=True)
class Source:
    """Where the rows come from."""

    view: str  # The main view; without it the table is unknown as a whole.
    alias: str = "t"  # Its alias in the expressions.
    joins: tuple[Join, ...] = ()  # Further views, left-joined.
    # Condition with named parameters (``:aggr_id``, ``:domain``, ...).
    where: str = "t.aggr_id = :aggr_id AND t.domain_name = :domain"
    # The view sums many rows for each of its own. Counting these takes as long as reading them, so
    # a page is read and counted by one query.
    is_summed: bool = False

    @property
    def aliases(self) -> dict[str, str]:
        """View of each alias."""
        return {self.alias: self.view} | {join.alias: join.view for join in self.joins}


@dataclass(frozen=True)
class LookupView:
    """A view of few rows that many rows of a narrow view refer to by a key."""

    view: str  # The view.
    alias: str  # Its alias in the expressions.
    key: str  # Its column, and that of the narrow view which refers to it.


@dataclass(frozen=True)
class KeyView:
    """A narrow view with one row for each row of the table, which determines the rows of a page.

    Only those rows are then read in full. In tables with millions of rows this is much faster: each
    distinct name is compared once, and joins are limited to the rows of the page.
    """

    # The narrow view; a database without it is asked in the ordinary way. It holds the rows of the
    # default domain.
    view: str
    row_id: str  # Its column that numbers the rows, as the table's own row id does.
    where: str  # Condition with named parameters.
    parts: tuple[LookupView, ...]  # What its rows refer to.
    # Expression of each column of the table, over the alias ``s`` or that of one part.
    sql: Mapping[str, str]
    # Columns that sort as another expression does, which is quicker to sort by.
    orders: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RowsOfOtherTable:
    """Limits the rows of a table to those that belong to chosen rows of another."""

    parameter: str  # The query parameter; its value is the query string of the other list.
    table: TableSpec  # The other table.
    sql: str  # Expression over the source by which its rows belong to the chosen ones.
    columns: tuple[str, ...]  # What is selected of the chosen rows.
    # Query for the values of ``sql``; {rows} stands for the selection of the chosen rows.
    values: str = "{rows}"


@dataclass(frozen=True)
class TableSpec:
    """One table of the API."""

    name: str  # Last part of its address, and stem of an export's file name.
    title: str  # For people.
    source: Source  # Where its rows come from.
    columns: tuple[Column, ...]  # Its fields, in order.
    default_ordering: tuple[str, ...]  # As a client would write it (``-gpu_time_ns``).
    # Columns of the API that make any order total: no two rows agree in all of them, or such rows
    # look the same in every column.
    key: tuple[str, ...]
    # Expression that numbers the rows of the main view, where it has such a column; it then
    # replaces ``key``, because (column, row id) is what the database is indexed by.
    row_id: str = "t.row_id"
    # Columns that make one row of many rows of the source; the expressions of the other columns sum
    # these. Empty: each row of the source is one of the table.
    grouped_by: tuple[str, ...] = ()
    # The same table read from the views that every DLProf database has; used when the main view of
    # ``source`` is absent.
    fallback: TableSpec | None = None
    narrow: KeyView | None = None  # Where the rows of a page are found, if not in the main view.
    among: tuple[RowsOfOtherTable, ...] = ()  # Other tables whose filters this one can follow.
    # Columns that the page shows first, in this order; the others follow. Empty: the page does not
    # show the table.
    lead: tuple[str, ...] = ()
    # Columns that the page does not show until the reader chooses them.
    hidden: tuple[str, ...] = ()
    by_name: dict[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})
        unknown = [
            name
            for name in (
                *self.lead,
                *self.hidden,
                *self.key,
                *self.grouped_by,
                *(term.removeprefix("-") for term in self.default_ordering),
            )
            if name not in self.by_name
        ]
        if unknown:
            raise ValueError(f"table {self.name}: no column named {', '.join(unknown)}")


@dataclass(frozen=True)
class Field:
    """One value of an object."""

    name: str  # Path in the reply; a dot makes a nested object.
    view: str  # Where the value is, one row per aggregation and domain.
    column: str  # Its column.
    description: str  # One sentence for the API's documentation.
    type: str = "integer"  # JSON type.
    measured: str = ""  # As for a column.
    is_rest: bool = False  # The value is what is left of the column to 100 %.
    when_null: str = ""  # Why the value is unknown where the column is NULL.
    # View whose column ``reason`` says why ``view`` has no row; empty: none does.
    reason_view: str = ""
    # How the value follows from the other ones; None: it is in the view.
    derived: Callable[[Mapping[str, Any]], Any] | None = None
    # Where the view has more than one row: how the column of the rows of ``where`` becomes a value.
    total: str = "{column}"
    where: str = ""


@dataclass(frozen=True)
class ObjectSpec:
    """One object of an aggregation: each of its fields is one column of a view."""

    name: str
    title: str
    fields: tuple[Field, ...]
    # Values of an aggregation that take the place of those in the views; None: none do.
    read: Callable[[sqlite3.Connection, int], Mapping[str, Any]] | None = None


def fields_of(view: str, described: Mapping[str, str]) -> tuple[Field, ...]:
    """Fields of one view: ``name`` or ``name=column``, and what ``described`` says of each.

    A ``%`` stands behind numbers with a fraction, a ``$`` behind texts.
    """
    result = []
    for declared, description in described.items():
        name, _, column = declared.rstrip("%$").partition("=")
        kind = {"%": "number", "$": "string"}.get(declared[-1], "integer")
        result.append(Field(name, view, column or name, description, kind))
    return tuple(result)


class _Page(TypedDict, total=False):
    """How the page shows a column, and what it needs; see ``Column``."""

    title: str
    unit: str
    when_null: str
    is_sum: bool
    measured: str
    is_sentence: bool


def _column(
    kind: Kind,
    name: str,
    description: str,
    sql: str = "",
    *,
    integer: bool = True,
    **page: Unpack[_Page],
) -> Column:
    """A column; a ``?`` behind its name: nullable. By default it reads the column of its name."""
    plain = name.removesuffix("?")
    nullable = name.endswith("?")
    return Column(
        plain, sql or f"t.{plain}", kind, description, integer=integer, nullable=nullable, **page
    )


text = partial(_column, Kind.TEXT)
sentence = partial(_column, Kind.TEXT, is_sentence=True)
"""A column of sentences that are shown in the reader's language."""
choice = partial(_column, Kind.CHOICE)
"""A column of few different texts."""
identifier = partial(_column, Kind.IDENTIFIER, integer=False)
"""A column whose value identifies something: by a text, or by a number if ``integer``."""
number = partial(_column, Kind.NUMBER)
"""A column of whole numbers; times are in nanoseconds."""
real = partial(_column, Kind.NUMBER, integer=False)
"""A column of numbers with a fraction."""
summed = partial(_column, Kind.NUMBER, is_sum=True)
"""A column of whole numbers that add up the aggregated iterations; times are in nanoseconds."""
boolean = partial(_column, Kind.BOOLEAN)
