"""Jobs."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.query.memory import query_records
from aggregator.query.request import check_parameters, parse_list_query
from aggregator.query.spec import TableSpec
from aggregator.texts import say
from viewer.api.base import ResourceView
from viewer.api.catalogue import JOBS
from viewer.api.documents import Parameter, Schema, list_parameters, list_schema
from viewer.api.shapes import JOB
from viewer.api.tables import envelope
from viewer.jobs import service
from viewer.jobs.models import Job, JobState
from viewer.jobs.presentation import present

#: Older jobs are history that nobody asks for.
_NEWEST = 1_000


class JobsView(ResourceView):
    """Jobs, newest first."""

    spec: ClassVar[TableSpec] = JOBS

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """Those of every list, and the state."""
        states = (("type", "string"), ("enum", list(JobState.values)))
        return (Parameter("state", "State.", states), *list_parameters(self.spec))

    def reply(self, method: str) -> Schema:
        """The list's shape."""
        return list_schema(JOB)

    def get(self, request: Request) -> Response:
        """Those of a profile or in a state, if asked for."""
        params = request.query_params.dict()
        query = parse_list_query(self.spec, params, besides=["state"])
        jobs = Job.objects.order_by("-created_at")
        if "state" in params:
            jobs = jobs.filter(state=_state(params["state"]))
        items = {job.id: present(job) for job in jobs[:_NEWEST]}
        count, ids = query_records(self.spec, query, list(items.values()))
        return Response(envelope(query, count, [items[job_id] for job_id in ids]))


class JobView(ResourceView):
    """One job."""

    def reply(self, method: str) -> Schema:
        """The job."""
        return JOB

    def get(self, request: Request, job: str) -> Response:
        """Where it is."""
        check_parameters(request.query_params.dict(), [])
        return Response(present(service.find(job)))


class CancelJobView(ResourceView):
    """Stop a job."""

    http_method_names = ["post", "options"]
    success_status = status.HTTP_202_ACCEPTED

    def reply(self, method: str) -> Schema:
        """The job."""
        return JOB

    def post(self, request: Request, job: str) -> Response:
        """Ask it to stop; one that waits is cancelled at once."""
        return _accepted(service.cancel(_checked(request, job)))


class RetryJobView(ResourceView):
    """Do a failed or cancelled job again."""

    http_method_names = ["post", "options"]
    success_status = status.HTTP_202_ACCEPTED

    def reply(self, method: str) -> Schema:
        """The job."""
        return JOB

    def post(self, request: Request, job: str) -> Response:
        """Queue it."""
        return _accepted(service.retry(_checked(request, job)))


def _checked(request: Request, job: str) -> str:
    check_parameters(request.query_params.dict(), [])
    body: Any = request.data
    if body:
        raise InvalidValueError(say("This address takes no body."))
    return job


def _accepted(job: Job) -> Response:
    return Response(present(job), status=status.HTTP_202_ACCEPTED)


def _state(raw: str) -> str:
    if raw not in JobState.values:
        raise InvalidValueError(
            say("There is no job state {raw!r}.", raw=raw),
            hint=say("Known: {names}.", names=", ".join(JobState.values)),
        )
    return raw
