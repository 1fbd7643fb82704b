"""The rows of a comparison as a table: filtered, sorted and paged like any other."""

from __future__ import annotations

from aggregator.tables.memory import RECORDS
from aggregator.tables.spec import TableSpec, choice, identifier, number, real, text
from aggregator.texts import say

COMPARE_ROWS = TableSpec(
    name="compare-rows",
    title=say("Rows of a comparison"),
    source=RECORDS,
    columns=(
        identifier("id", "Number of the row: 0 has the largest difference.", integer=True),
        number("row", "The same as a number, to sort and filter by."),
        choice("class", "What the GPU did or waited for.", "t.class"),
        choice("reason", "Why the GPU was idle, or empty."),
        text("module", "Module, with a slash at its end."),
        text("op", "Name within the module; empty: the module itself, or no op."),
        choice("op_type", "Kind of op; empty: several, or no op."),
        choice("direction", "fprop, bprop, recompute or empty."),
        choice("match", "same, aligned, module, only_base or only_new."),
        real("base_ns", "Mean per step on the base side."),
        real("new_ns", "Mean per step on the new side."),
        real("difference_ns", "New - base."),
        choice("verdict", "faster, slower, same or cannot tell."),
        real("within_pct?", "Larger bound of the 95 % interval in percent of the base."),
        real("q_value?", "False discovery rate at which the row is called."),
    ),
    default_ordering=("row",),
    key=("row",),
)
