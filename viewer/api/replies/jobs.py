"""Replies about jobs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from aggregator.system.replies import doc
from viewer.api.replies.shared import Error


class AggregationRequest(Struct, kw_only=True):
    """What a job was asked to aggregate."""

    key_node: Annotated[str, doc("Op ID, op name or range name; empty: chosen from the profile.")]
    iter_start: Annotated[int | None, doc("First iteration, inclusive.")]
    iter_stop: Annotated[int | None, doc("Last iteration, inclusive.")]
    phase: Annotated[str, doc("Only iterations of this phase; empty: all.")]
    bare_step_ns: Annotated[int | None, doc("Step without profiling that the user gave.")]


class RankFile(Struct, kw_only=True):
    """A rank file of an import that joins several."""

    file_name: str
    rank: Annotated[int | None, doc("Number that the request gave it; null: taken from the file.")]
    state: Literal["waiting", "importing", "done", "failed"]


class Job(Struct, kw_only=True):
    """An aggregation or an import that runs in the background."""

    id: str
    kind: Literal["aggregation", "import"]
    profile_id: Annotated[str, doc("Profile that it works on; for an import: that it makes.")]
    profile_name: Annotated[str, doc("Of an import, the name of the profile; may be empty.")]
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    phase: Annotated[str, doc("Phase of the work; empty before it begins.")]
    progress_pct: float
    rows_per_s: float | None
    eta_s: Annotated[float | None, doc("Estimated time left, in seconds.")]
    message: str
    error: Error | None
    aggregation_id: Annotated[int | None, doc("The aggregation that it made.")]
    result_profile_id: Annotated[
        str | None,
        doc("Profile that holds the result: another one if a database of NVIDIA's was converted."),
    ]
    is_cancel_requested: bool
    request: AggregationRequest
    jobs_before: Annotated[
        int | None,
        doc("Number of jobs that begin before it while it waits; only at the job's own address."),
    ]
    files: list[RankFile]
    created_at: str
    started_at: str | None
    finished_at: str | None
