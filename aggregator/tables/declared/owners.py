"""Tables of who owned the time of the iterations, and how two runs differ in that."""

from __future__ import annotations

from aggregator.tables.in_memory_table import RECORDS
from aggregator.tables.spec import Source, TableSpec, choice, identifier, number, real, text
from aggregator.texts import say

_WHOLE_RUN = "t.aggr_id = :aggr_id"
_TIME = (
    number("time_ns", "Time in all iterations and on all GPUs that ran work.", "t.owned_time"),
    real("step_time_ns", "Mean per iteration and GPU.", "t.owned_step_time"),
    real("share_pct", "Share of the iterations; all owners add up to 100 %.", "t.owned_pct"),
)

OWNERS = TableSpec(
    name="owners",
    title=say("Owners of time"),
    source=Source(view="view_owners", where=_WHOLE_RUN),
    columns=(
        number("owner", "Number of the owner, from 0."),
        choice(
            "owner_class", "What the GPU did or waited for (other compute, waiting for the host)."
        ),
        choice(
            "reason",
            "Why the GPU was idle; empty: it was busy, or the class says why.",
            "t.owner_reason",
        ),
        identifier("op_id?", "Op that owns the time; null: no op.", "t.op_node_id"),
        text("op_name?", "Path of the op in the model; null: no op.", "t.op_node_name"),
        choice("direction", "fprop, bprop or recompute; empty: no op, or work outside every op."),
        choice("op_type", "Kind of op; empty: no op.", "t.op_node_type"),
        text(
            "module",
            "Module of the op, or the range around what was no op; ends with a slash.",
            "t.module_path",
        ),
        *_TIME,
    ),
    default_ordering=("-time_ns",),
    key=("owner",),
)

_SIDES = ("base_ns", "new_ns", "difference_ns")

COMPARE_ROWS = TableSpec(
    name="compare-rows",
    title=say("Rows of a comparison"),
    source=RECORDS,
    columns=(
        identifier("id", "Number of the row: 0 has the largest difference.", integer=True),
        number("row", "The same as a number, to sort and filter by."),
        choice("class", "What the GPU did or waited for.", "t.class"),
        choice("reason", "Why the GPU was idle, or empty."),
        text("path", "Module and op, else reason or class, between slashes."),
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

_OF_OPS = ("id", "row", "path", "module", "op", "op_type", "direction", *_SIDES, "verdict")

COMPARE_OPS = TableSpec(
    name="compare-ops",
    title=say("Ops of a comparison"),
    source=RECORDS,
    columns=tuple(column for column in COMPARE_ROWS.columns if column.name in _OF_OPS),
    default_ordering=("row",),
    key=("row",),
)
