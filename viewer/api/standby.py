"""Jobs of this machine that stand by, and windows of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from drf_spectacular.utils import extend_schema
from msgspec import Struct
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.sources.collector.standing_by import Job as StandbyJob
from aggregator.sources.collector.standing_by import list_jobs
from aggregator.system.plain_text import escape_control_characters
from aggregator.system.replies import doc
from aggregator.texts import say
from viewer.api.bodies import NewWindowSerializer
from viewer.api.replies.jobs import Job as JobReply
from viewer.api.replies.jobs import present
from viewer.api.schema import ResourceView, reply
from viewer.api.scope import environment
from viewer.api.structs import reference
from viewer.errors import ViewerError
from viewer.jobs.addition import add_window
from viewer.security.access import client_of, is_passed_on

_REFUSAL = say("This viewer shows the jobs of its machine to clients of that machine only.")


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


class RunningJobsView(ResourceView):
    """Jobs that stand by."""

    http_method_names = ["get", "post", "head", "options"]

    @extend_schema(responses=reply(RunningJobs))
    def get(self, request: Request) -> Response:
        """The jobs of the viewer's user that stand by on its machine."""
        may = _may_record(request)
        found = RunningJobs(
            results=[_present(job) for job in list_jobs()] if may else [],
            reason=None if may else str(_REFUSAL),
        )
        return Response(msgspec.to_builtins(found))

    @extend_schema(request=NewWindowSerializer, responses={202: reference(JobReply)})
    def post(self, request: Request) -> Response:
        """Record some steps of such a job, and make a profile of them in the background."""
        if not _may_record(request):
            raise ViewerError(
                _REFUSAL,
                "RECORDING_NOT_ALLOWED",
                hint=say("Start it with DLPROF_RECORD_JOBS=1 to let others record them."),
            )
        wanted = NewWindowSerializer.read(request)
        job = add_window(
            wanted["process"],
            wanted["steps"],
            client_of(request._request),
            all_ranks=wanted.get("all_ranks", False),
        )
        return Response(present(job), status=status.HTTP_202_ACCEPTED)


def _may_record(request: Request) -> bool:
    """Whether a client may see command lines of this machine: it is there itself, or all may."""
    is_local = environment().is_loopback and not is_passed_on(request._request)
    return is_local or environment().record_jobs


def _present(job: StandbyJob) -> RunningJob:
    return RunningJob(
        process=job.pid,
        command=escape_control_characters(job.name),
        started_at=datetime.fromtimestamp(job.started_utc_s, tz=UTC).isoformat(),
        processes=len(job.ranks),
    )
