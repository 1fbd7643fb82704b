"""``--dump_model_data``: the correlated data of one aggregation, as they lie in the database.

JSON, ``{"<section>": [{"<column>": <value>, ...}, ...]}`` with the columns of the database's
views; times in ns. Op instances, API calls and memory operations are those of the whole profile.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO, Final

from profiler_cli.reports.columns import Format
from profiler_cli.reports.table import RowsListener, write_json_rows

if TYPE_CHECKING:
    from profiler_cli.reports.source import ReportSource

SUFFIX: Final = "model_data"

# Section -> view, and whether the view's rows belong to an aggregation.
SECTIONS: Final = {
    "Iterations": ("view_iterations_all", True),
    "Ops": ("view_op_metrics", True),
    "Op Instances": ("view_op_instances", False),
    "Kernels": ("view_kernel_launches", True),
    "API Calls": ("view_api_calls", False),
    "Memory Ops": ("view_memory_ops", False),
}


INTERNAL: Final = frozenset({"last_long_kernel_name"})
"""Columns that only reproduce DLProf's iteration report."""


def write_model_data(source: ReportSource, stream: BinaryIO, on_rows: RowsListener) -> None:
    """Write all sections into a stream, all domains together."""
    separator = "{"
    for section, (view, per_aggregation) in SECTIONS.items():
        columns = [name for name in source.columns(view) if name not in INTERNAL]
        chunks = source.iter_chunks(
            view, columns, per_aggregation=per_aggregation, per_domain=False
        )
        stream.write(f"{separator}\n   {json.dumps(section)} : [".encode())
        write_json_rows([(name, Format.RAW) for name in columns], chunks, stream, on_rows)
        stream.write(b"]")
        separator = ","
    stream.write(b"\n}\n")
