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
from viewer.api.payloads import read_aggregation_request, read_new_name, read_new_profile
from viewer.api.scope import environment, open_profile, registry
from viewer.api.shapes import (
    JOB,
    NEW_AGGREGATION,
    NEW_PROFILE,
    PROFILE,
    PROFILE_CHANGE,
    PROFILE_ITEM,
    PROFILE_REMOVED,
)
from viewer.api.tables import envelope
from viewer.errors import CannotReaggregateError
from viewer.jobs.models import Job
from viewer.jobs.presentation import present
from viewer.jobs.service import submit
from viewer.profiles import storage
from viewer.profiles.addition import add_profile
from viewer.profiles.summary import describe, describe_fully, why_not_reaggregate
from viewer.security.client import client_of


class ProfilesView(ResourceView):
    """The profiles that this viewer serves."""

    spec: ClassVar[TableSpec] = PROFILES
    http_method_names = ["get", "post", "head", "options"]

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """Those of every list."""
        return list_parameters(self.spec) if method == "GET" else ()

    def body(self, method: str) -> Schema | None:
        """What is to be added."""
        return NEW_PROFILE if method == "POST" else None

    def reply(self, method: str) -> Schema:
        """The list's shape, or the profile that was added."""
        return list_schema(PROFILE_ITEM) if method == "GET" else PROFILE_ITEM

    def status_of(self, method: str) -> int:
        """A database is there at once."""
        return status.HTTP_200_OK if method == "GET" else status.HTTP_201_CREATED

    def other_replies(self, method: str) -> dict[int, Schema]:
        """What has to be imported is accepted, and not there yet."""
        return {status.HTTP_202_ACCEPTED: JOB} if method == "POST" else {}

    def get(self, request: Request) -> Response:
        """One item per database; one that cannot be opened says why."""
        query = parse_list_query(self.spec, request.query_params.dict())
        limit = environment().query_timeout_s
        items = {served.id: describe(served, time_limit_s=limit) for served in registry().all()}
        records = [item | {"position": place} for place, item in enumerate(items.values())]
        count, ids = query_records(self.spec, query, records)
        return Response(envelope(query, count, [items[item_id] for item_id in ids]))

    def post(self, request: Request) -> Response:
        """Add a file: one that was uploaded, or one in a folder that may be registered from.

        A database is served at once (201, the profile); a profile has to be imported (202, the
        job that does it).
        """
        check_parameters(request.query_params.dict(), [])
        added = add_profile(read_new_profile(request.data), client_of(request._request))
        if isinstance(added, Job):
            return Response(present(added), status=status.HTTP_202_ACCEPTED)
        item = describe(added, time_limit_s=environment().query_timeout_s)
        return Response(item, status=status.HTTP_201_CREATED)


class ProfileView(ResourceView):
    """One profile."""

    http_method_names = ["get", "patch", "delete", "head", "options"]

    def body(self, method: str) -> Schema | None:
        """The new name."""
        return PROFILE_CHANGE if method == "PATCH" else None

    def reply(self, method: str) -> Schema:
        """The profile's fields, or what is left of it."""
        replies = {"GET": PROFILE, "PATCH": PROFILE_ITEM, "DELETE": PROFILE_REMOVED}
        return replies.get(method, PROFILE)

    def get(self, request: Request, profile: str) -> Response:
        """What the system was, which domains there are, and what can be done with it."""
        check_parameters(request.query_params.dict(), [])
        with open_profile(profile) as (served, database):
            return Response(describe_fully(served, database))

    def patch(self, request: Request, profile: str) -> Response:
        """Give it another name; the file stays as it is."""
        check_parameters(request.query_params.dict(), [])
        name = read_new_name(request.data)
        storage.rename(registry().get(profile), name)
        item = describe(registry().get(profile), time_limit_s=environment().query_timeout_s)
        return Response(item)

    def delete(self, request: Request, profile: str) -> Response:
        """Delete what the viewer stored itself; a user's own file is only listed no more."""
        check_parameters(request.query_params.dict(), [])
        names, is_unlisted = storage.remove(profile, registry().find(profile))
        return Response({"id": profile, "deleted_files": names, "is_unlisted": is_unlisted})


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
        job = submit(served, wanted, client_of(request._request))
        return Response(present(job), status=status.HTTP_202_ACCEPTED)
