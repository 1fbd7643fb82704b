"""Replies about jobs that stand by."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from aggregator.system.replies import doc


class RunningJob(Struct, kw_only=True):
    """A job of the viewer's user and machine that stands by: it can be recorded as it runs."""

    process: Annotated[int, doc("Number of the dlprof that runs it.")]
    command: str
    started_at: str
    processes: Annotated[int, doc("Processes that have ended a step, and so can be recorded.")]


class RunningJobs(Struct, kw_only=True):
    """The jobs that can be recorded, the newest first."""

    results: list[RunningJob]
    reason: Annotated[str | None, doc("Why none are listed; null: they are, if there are any.")]
