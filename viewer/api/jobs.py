"""Jobs."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.system.replies import to_plain
from aggregator.tables.aggregation_data import list_reply
from aggregator.tables.in_memory_table import RECORDS, query_records
from aggregator.tables.request import ListQuery, parse_list_query
from aggregator.tables.spec import TableSpec, choice, identifier, number, real, text
from aggregator.texts import say
from viewer.api.replies.jobs import SUMMARY, present, summary
from viewer.api.replies.jobs import Job as JobReply
from viewer.api.schema import ResourceView, get_view, list_parameters, page_of, query, reply
from viewer.api.structs import reference
from viewer.jobs import service
from viewer.jobs.service import jobs_before
from viewer.state.models import Job, JobState

JOBS = TableSpec(
    name="jobs",
    title=say("Jobs"),
    source=RECORDS,
    columns=(
        identifier("id", "Part of the job's address."),
        identifier("profile", "Profile that it works on.", "t.profile_id"),
        choice("kind", "aggregation or import."),
        choice("state", "queued, running, done, failed or cancelled."),
        number("aggregation_id?", "Aggregation that it made."),
        real("progress_pct", "Share of the work that is done."),
        text("created_at", "When it was queued."),
        text("started_at?", "When a worker began it."),
        text("finished_at?", "When it ended."),
    ),
    default_ordering=("-created_at",),
    key=("id",),
)
#: More than are ever kept.
_NEWEST = 20_000
#: Columns that the database of jobs filters by itself, and their fields.
_FIELDS = {"profile": "profile_id", "kind": "kind", "state": "state"}
_SAME = frozenset({"", "in"})
_BY_TIME = {"created_at": ("created_at", "id"), "-created_at": ("-created_at", "id")}


class JobsView(ResourceView):
    """Jobs, newest first."""

    query_names = None

    @extend_schema(
        parameters=[query("state", "State.", enum=list(JobState.values)), *list_parameters(JOBS)],
        responses=page_of("Job", reference(JobReply)),
    )
    def get(self, request: Request) -> Response:
        """Jobs that pass the filters."""
        params = request.query_params.dict()
        wanted = parse_list_query(JOBS, params, besides=["state"])
        jobs = Job.objects.all()
        if "state" in params:
            jobs = jobs.filter(state=_state(params["state"]))
        count, found = _page(wanted, jobs)
        return Response(list_reply(wanted, count, to_plain([present(job) for job in found])))


def _page(query: ListQuery, jobs: QuerySet[Job]) -> tuple[int, list[Job]]:
    """Return the number of jobs that pass, and those of the page; fast for what the page polls."""
    simple = [
        condition
        for condition in query.filters
        if condition.column.name in _FIELDS and condition.operator in _SAME
    ]
    for condition in simple:
        jobs = jobs.filter(**{f"{_FIELDS[condition.column.name]}__in": condition.values})
    order = _BY_TIME.get(query.ordering_text)
    if order and not query.search and len(simple) == len(query.filters):
        first = (query.page - 1) * query.page_size
        return jobs.count(), list(jobs.order_by(*order)[first : first + query.page_size])
    newest = jobs.order_by("-created_at", "id")[:_NEWEST]
    count, ids = query_records(JOBS, query, [summary(job) for job in newest.values(*SUMMARY)])
    found = {job.id: job for job in Job.objects.filter(pk__in=ids)}
    return count, [found[job_id] for job_id in ids if job_id in found]


@get_view(reply(JobReply))
def JobView(request: Request, job: str) -> JobReply:
    """State and progress of the job."""
    found = service.find(job)
    return present(found, jobs_before(found) if found.state == JobState.QUEUED else None)


class CancelJobView(ResourceView):
    """Stop a job."""

    http_method_names = ["post", "options"]

    @extend_schema(responses={202: reference(JobReply)})
    def post(self, request: Request, job: str) -> Response:
        """Ask the job to stop; a job that waits is cancelled at once."""
        return _accepted(service.cancel(_checked(request, job)))


class RetryJobView(ResourceView):
    """Repeat a failed or cancelled job."""

    http_method_names = ["post", "options"]

    @extend_schema(responses={202: reference(JobReply)})
    def post(self, request: Request, job: str) -> Response:
        """Queue the job again."""
        return _accepted(service.retry(_checked(request, job)))


def _checked(request: Request, job: str) -> str:
    if request.data:
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
