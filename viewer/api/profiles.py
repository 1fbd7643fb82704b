"""Profiles and their aggregations."""

from __future__ import annotations

from typing import ClassVar

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.query.memory import query_records
from aggregator.query.request import check_parameters, parse_list_query
from aggregator.query.spec import TableSpec
from aggregator.query.sql import bind, count_rows, read_page
from aggregator.resources.iterations import AGGREGATIONS
from aggregator.resources.profile import moment
from aggregator.texts import say
from viewer.api.base import ResourceView
from viewer.api.catalogue import PROFILES
from viewer.api.documents import Parameter, Schema, list_parameters, list_schema, table_schema
from viewer.api.payloads import read_aggregation_request
from viewer.api.scope import environment, open_profile, registry
from viewer.api.shapes import JOB, NEW_AGGREGATION, PROFILE, PROFILE_ITEM
from viewer.api.tables import envelope
from viewer.errors import CannotReaggregateError
from viewer.jobs.presentation import present
from viewer.jobs.service import submit
from viewer.profiles.summary import describe, describe_fully, why_not_reaggregate


class ProfilesView(ResourceView):
    """The profiles that this viewer serves."""

    spec: ClassVar[TableSpec] = PROFILES

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """Those of every list."""
        return list_parameters(self.spec)

    def reply(self, method: str) -> Schema:
        """The list's shape."""
        return list_schema(PROFILE_ITEM)

    def get(self, request: Request) -> Response:
        """One item per database; one that cannot be opened says why."""
        query = parse_list_query(self.spec, request.query_params.dict())
        limit = environment().query_timeout_s
        items = {served.id: describe(served, time_limit_s=limit) for served in registry().all()}
        records = [item | {"position": place} for place, item in enumerate(items.values())]
        count, ids = query_records(self.spec, query, records)
        return Response(envelope(query, count, [items[item_id] for item_id in ids]))


class ProfileView(ResourceView):
    """One profile."""

    def reply(self, method: str) -> Schema:
        """The profile's fields."""
        return PROFILE

    def get(self, request: Request, profile: str) -> Response:
        """What the system was, which domains there are, and what can be done with it."""
        check_parameters(request.query_params.dict(), [])
        with open_profile(profile) as (served, database):
            return Response(describe_fully(served, database))


class AggregationsView(ResourceView):
    """The aggregations of a profile."""

    spec: ClassVar[TableSpec] = AGGREGATIONS
    http_method_names = ["get", "post", "head", "options"]

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """Those of every list."""
        return list_parameters(self.spec) if method == "GET" else ()

    def body(self, method: str) -> Schema | None:
        """What is to be aggregated."""
        return NEW_AGGREGATION if method == "POST" else None

    def reply(self, method: str) -> Schema:
        """The list, or the job."""
        return table_schema(self.spec) if method == "GET" else JOB

    def status_of(self, method: str) -> int:
        """A job is accepted, not done."""
        return status.HTTP_200_OK if method == "GET" else status.HTTP_202_ACCEPTED

    def get(self, request: Request, profile: str) -> Response:
        """Those that exist."""
        query = parse_list_query(self.spec, request.query_params.dict())
        with open_profile(profile) as (_, database):
            table = bind(self.spec, database, {})
            count = count_rows(table, query, database)
            rows = [
                row | {"created_at": moment(row["created_at"], database)}
                for row in read_page(table, query, database)
            ]
        return Response(envelope(query, count, rows) | {"unknown": table.unknown})

    def post(self, request: Request, profile: str) -> Response:
        """Ask for one more; a worker makes it in the background."""
        check_parameters(request.query_params.dict(), [])
        with open_profile(profile) as (served, database):
            if reason := why_not_reaggregate(served, database):
                raise CannotReaggregateError(
                    reason, hint=say("Copy it to a folder of your own and open the copy.")
                )
            wanted = read_aggregation_request(request.data, database)
        job = submit(served, wanted)
        return Response(present(job), status=status.HTTP_202_ACCEPTED)
