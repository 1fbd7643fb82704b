"""Jobs."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.query.memory import query_records
from aggregator.query.request import ListQuery, check_parameters, parse_list_query
from aggregator.query.spec import TableSpec
from aggregator.texts import say
from viewer.api.base import ResourceView
from viewer.api.catalogue import JOBS
from viewer.api.documents import Parameter, Schema, list_parameters, list_schema
from viewer.api.shapes import JOB
from viewer.api.tables import envelope
from viewer.jobs import service
from viewer.jobs.models import Job, JobState
from viewer.jobs.presentation import SUMMARY, present, summary
from viewer.jobs.turns import jobs_before

#: Far more than are kept.
_NEWEST = 20_000
#: What the database of jobs is asked itself, by the column's name.
_FIELDS = {"profile": "profile_id", "kind": "kind", "state": "state"}
_SAME = frozenset({"", "in"})
_BY_TIME = {"created_at": ("created_at", "id"), "-created_at": ("-created_at", "id")}


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
        jobs = Job.objects.all()
        if "state" in params:
            jobs = jobs.filter(state=_state(params["state"]))
        count, found = _page(self.spec, query, jobs)
        return Response(envelope(query, count, [present(job) for job in found]))


def _page(spec: TableSpec, query: ListQuery, jobs: QuerySet[Job]) -> tuple[int, list[Job]]:
    """How many jobs pass, and those of the page; what the page asks every second is quick."""
    simple = [one for one in query.filters if one.column.name in _FIELDS and one.operator in _SAME]
    for one in simple:
        jobs = jobs.filter(**{f"{_FIELDS[one.column.name]}__in": one.values})
    order = _BY_TIME.get(query.ordering_text)
    if order and not query.search and len(simple) == len(query.filters):
        first = (query.page - 1) * query.page_size
        return jobs.count(), list(jobs.order_by(*order)[first : first + query.page_size])
    newest = jobs.order_by("-created_at", "id")[:_NEWEST]
    count, ids = query_records(spec, query, [summary(job) for job in newest.values(*SUMMARY)])
    found = {job.id: job for job in Job.objects.filter(pk__in=ids)}
    return count, [found[job_id] for job_id in ids if job_id in found]


class JobView(ResourceView):
    """One job."""

    def reply(self, method: str) -> Schema:
        """The job."""
        return JOB

    def get(self, request: Request, job: str) -> Response:
        """Where it is."""
        check_parameters(request.query_params.dict(), [])
        found = service.find(job)
        waits = found.state == JobState.QUEUED
        return Response(present(found, jobs_before(found) if waits else None))


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
