"""The table of all events of a timeline."""

from __future__ import annotations

from aggregator.tables.spec import Source, TableSpec, choice, identifier, number, text
from aggregator.texts import say

EVENTS_VIEW = "view_timeline_events"
"""A view of the connection: see ``tables.events_view``."""

TIMELINE_EVENTS = TableSpec(
    name="timeline-events",
    title=say("Events"),
    source=Source(view=EVENTS_VIEW, where="1"),
    columns=(
        choice("event_kind", "kernel, copy, set, graph, op or call.", title="Kind"),
        text(
            "event_name", "Readable name of a kernel, CUDA call, or path of an op.", title="Event"
        ),
        identifier("op_id", "The op that it belongs to.", "t.op_id"),
        text("op_name", "Path of that op."),
        number("start_time_ns", "Start on the clock of the profile.", "t.start_ns"),
        number("duration_ns", "Its length.", "t.duration_ns", title="Duration", unit="µs"),
        number("device_id?", "GPU; null: it ran on the CPU.", when_null="It ran on the CPU."),
        number("stream_id?", "CUDA stream; null: none was recorded."),
        number("process_id", "Process."),
        number("thread_id?", "Thread; null: it ran on a GPU.", when_null="It ran on a GPU."),
        text(
            "kernel_long_name?",
            "Full name of the kernel.",
            title="Full kernel name",
            when_null="It is no kernel.",
        ),
        number("event_row", "Row id in the table of its kind."),
    ),
    default_ordering=("start_time_ns",),
    key=("event_kind", "event_row"),
    lead=("event_name", "event_kind", "start_time_ns", "duration_ns", "op_id", "device_id"),
    hidden=("op_name", "process_id", "kernel_long_name", "event_row"),
)
