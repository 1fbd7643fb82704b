"""Profiles, their aggregations, and uploads, which become profiles with POST profiles/."""

from __future__ import annotations

from pathlib import Path

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.dldb.aggregations import (
    aggregation_not_found,
    change_aggregation,
    delete_aggregation,
)
from aggregator.errors import InvalidValueError, IterationRangeError
from aggregator.options import AggregationRequest
from aggregator.system.replies import to_plain
from aggregator.system.untrusted_json import read_count
from aggregator.tables.aggregation_data import AggregationData, list_reply
from aggregator.tables.connection import ProfileDatabase
from aggregator.tables.declared.iterations import AGGREGATIONS
from aggregator.tables.declared.profile import iso_time
from aggregator.tables.in_memory_table import RECORDS, query_records
from aggregator.tables.request import parse_list_query
from aggregator.tables.spec import TableSpec, boolean, choice, identifier, number, text
from aggregator.texts import say
from viewer.api.bodies import (
    AggregationChangeSerializer,
    NewAggregationSerializer,
    NewProfileSerializer,
    NewUploadSerializer,
    ProfileChangeSerializer,
)
from viewer.api.replies.jobs import Job as JobReply
from viewer.api.replies.jobs import present
from viewer.api.replies.profiles import (
    Profile,
    ProfileItem,
    RemovedProfile,
    Upload,
    describe,
    describe_all,
    describe_fully,
    why_not_reaggregate,
    why_read_only,
)
from viewer.api.schema import ResourceView, list_parameters, page_of, reply, row, table_page
from viewer.api.scope import environment, open_profile, registry
from viewer.api.structs import reference
from viewer.errors import ViewerError
from viewer.jobs.addition import add_profile
from viewer.jobs.service import submit
from viewer.profiles import storage, uploads
from viewer.security.access import client_of
from viewer.security.http import UPLOAD_TYPE
from viewer.state.models import Job

PROFILES = TableSpec(
    name="profiles",
    title=say("Profiles"),
    source=RECORDS,
    columns=(
        identifier("id", "Part of the profile's address."),
        text("name", "Name of the profile, else the name of its file."),
        text("file_name", "Name of the file, without its folder."),
        text("path", "Where the file is on the server."),
        boolean("is_foreign?", "Written by NVIDIA's DLProf."),
        text("db_version?", "Version of the DLProf that wrote it."),
        choice("mode?", "How its ranges were read."),
        text("framework?", "Framework and its version."),
        number("gpu_count?", "Number of GPUs."),
        text("gpu_name?", "Names of the GPUs."),
        number("iteration_count?", "Iterations of the whole profile, in its first aggregation."),
        text("created_at?", "When the database was written."),
        number("aggregation_count?", "Number of aggregations in it."),
        number("position", "Position in the order of the command line."),
    ),
    default_ordering=("position",),
    key=("id",),
)


class ProfilesView(ResourceView):
    """The profiles that this viewer serves."""

    http_method_names = ["get", "post", "head", "options"]
    query_names = None

    @extend_schema(
        parameters=list(list_parameters(PROFILES)),
        responses=page_of("ProfileItem", reference(ProfileItem)),
    )
    def get(self, request: Request) -> Response:
        """One item per database; the item of one that cannot be opened has the error."""
        query = parse_list_query(PROFILES, request.query_params.dict())
        limit = environment().query_timeout_s
        found = to_plain(describe_all(registry().all(), time_limit_s=limit))
        items = {item["id"]: item for item in found}
        records = [item | {"position": place} for place, item in enumerate(items.values())]
        count, ids = query_records(PROFILES, query, records)
        return Response(list_reply(query, count, [items[item_id] for item_id in ids]))

    @extend_schema(
        request=NewProfileSerializer,
        responses={201: reference(ProfileItem), 202: reference(JobReply)},
    )
    def post(self, request: Request) -> Response:
        """Add a file: one that was uploaded, or one in a folder that may be registered from.

        A database is served at once (201, the profile); a profile has to be imported (202, the
        job that does it).
        """
        wanted = NewProfileSerializer.read_new_profile(request)
        added = add_profile(wanted, client_of(request._request))
        if isinstance(added, Job):
            return Response(present(added), status=status.HTTP_202_ACCEPTED)
        item = describe(added, time_limit_s=environment().query_timeout_s)
        return Response(to_plain(item), status=status.HTTP_201_CREATED)


class ProfileView(ResourceView):
    """One profile."""

    http_method_names = ["get", "patch", "delete", "head", "options"]

    @extend_schema(responses=reply(Profile))
    def get(self, request: Request, profile: str) -> Response:
        """Everything about the profile that no aggregation changes."""
        with open_profile(profile) as (served, database):
            return Response(to_plain(describe_fully(served, database)))

    @extend_schema(request=ProfileChangeSerializer, responses=reply(ProfileItem))
    def patch(self, request: Request, profile: str) -> Response:
        """Rename the profile; the file is not changed."""
        name = ProfileChangeSerializer.read(request)["name"]
        storage.rename(registry().get(profile), name)
        item = describe(registry().get(profile), time_limit_s=environment().query_timeout_s)
        return Response(to_plain(item))

    @extend_schema(responses=reply(RemovedProfile))
    def delete(self, request: Request, profile: str) -> Response:
        """Remove it from the list; a file is deleted only if the viewer stored it."""
        names, is_unlisted = storage.remove(profile, registry().find(profile))
        return Response(RemovedProfile(id=profile, deleted_files=names, is_unlisted=is_unlisted))


class AggregationsView(ResourceView):
    """The aggregations of a profile."""

    http_method_names = ["get", "post", "head", "options"]
    query_names = None

    @extend_schema(
        parameters=list(list_parameters(AGGREGATIONS)), responses=table_page(AGGREGATIONS)
    )
    def get(self, request: Request, profile: str) -> Response:
        """The aggregations that exist."""
        query = parse_list_query(AGGREGATIONS, request.query_params.dict())
        with open_profile(profile) as (_, database):
            page = AggregationData(database, {}).page(AGGREGATIONS, query)
            for item in page["results"]:
                item["created_at"] = iso_time(item["created_at"], database)
        return Response(page)

    @extend_schema(request=NewAggregationSerializer, responses={202: reference(JobReply)})
    def post(self, request: Request, profile: str) -> Response:
        """Queue a job that adds an aggregation."""
        with open_profile(profile) as (served, database):
            if reason := why_not_reaggregate(served, database):
                raise _refused(reason, "CANNOT_REAGGREGATE")
            wanted = _requested(request, database)
        job = submit(served, wanted, client_of(request._request))
        return Response(present(job), status=status.HTTP_202_ACCEPTED)


class AggregationView(ResourceView):
    """One aggregation of a profile."""

    http_method_names = ["patch", "delete", "options"]

    @extend_schema(request=AggregationChangeSerializer, responses={200: row(AGGREGATIONS)})
    def patch(self, request: Request, profile: str, aggregation: int) -> Response:
        """Name the aggregation, or open the profile with it."""
        wanted = AggregationChangeSerializer.read(request)
        change_aggregation(_changeable(profile), aggregation, **wanted)
        with open_profile(profile) as (_, database):
            rows = AggregationData(database, {}).rows(AGGREGATIONS)
            found = next((item for item in rows if item["id"] == aggregation), None)
            if found is None:  # deleted in between
                raise aggregation_not_found(aggregation, [item["id"] for item in rows])
            return Response(found | {"created_at": iso_time(found["created_at"], database)})

    @extend_schema(responses={204: None})
    def delete(self, request: Request, profile: str, aggregation: int) -> Response:
        """Delete the aggregation; the events of the profile stay, and it can be made again."""
        delete_aggregation(_changeable(profile), aggregation)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _changeable(profile: str) -> Path:
    """Return the database of a profile, if it may be changed."""
    with open_profile(profile) as (served, database):
        if reason := why_read_only(served, database):
            raise _refused(reason, "READ_ONLY_PROFILE")
        return served.path


def _refused(reason: str, code: str) -> ViewerError:
    return ViewerError(reason, code, hint=say("Copy it to a folder of your own and open the copy."))


def _requested(request: Request, database: ProfileDatabase) -> AggregationRequest:
    """Return the aggregation of a request.

    Whether the key node exists is checked by the engine, which knows ranges as well as ops.

    Raises:
        InvalidValueError: The body is not valid.
        IterationRangeError: A range that is reversed or beyond the known iterations.
    """
    body = NewAggregationSerializer.read(request)
    wanted = AggregationRequest(
        key_node=body.get("key_node") or "",
        iter_start=body.get("iter_start"),
        iter_stop=body.get("iter_stop"),
        phase=body.get("phase") or "",
        bare_step_ns=body.get("bare_step_ns") or 0,
    )
    start, stop = wanted.iter_start, wanted.iter_stop
    if start is not None and stop is not None and start > stop:
        raise IterationRangeError(
            say(
                "The range is reversed: it starts at {start} and stops at {stop}.",
                start=start,
                stop=stop,
            ),
            hint=say("iter_start must not be greater than iter_stop."),
        )
    last = _last_iteration(wanted.key_node, database)
    for name, value in (("iter_start", start), ("iter_stop", stop)):
        if last is not None and value is not None and value > last:
            raise IterationRangeError(
                say(
                    "{name} is {value}, and the last iteration of this key node is {last}.",
                    name=name,
                    value=value,
                    last=last,
                ),
                hint=say("Choose from 0 to {last}.", last=last),
                parameter=name,
            )
    return wanted


def _last_iteration(key_node: str, database: ProfileDatabase) -> int | None:
    """Return the last iteration of a key node, if an aggregation has already used it."""
    sql = (
        "SELECT MAX(i.iter_value) FROM view_iterations_all i "
        "JOIN view_aggregations a ON a.aggr_id = i.aggr_id WHERE a.key_node_name = :key_node"
    )
    if not key_node:
        return None
    value = database.rows(sql, {"key_node": key_node})[0][0]
    return None if value is None else int(value)


class UploadsView(ResourceView):
    """Upload a file."""

    http_method_names = ["post", "options"]
    change_names = ("file_name",)

    @extend_schema(
        parameters=[NewUploadSerializer],
        request={UPLOAD_TYPE: bytes},
        responses={201: reference(Upload)},
    )
    def post(self, request: Request) -> Response:
        """Send a file; its size is the Content-Length."""
        query = NewUploadSerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        name = query.validated_data["file_name"]
        if not name:
            raise InvalidValueError(say("file_name must not be empty."), parameter="file_name")
        if request._request.content_type != UPLOAD_TYPE:
            raise UnsupportedMediaType(request.content_type)
        # Not request.data: the body is copied to the disk in blocks, never held in memory.
        upload = uploads.receive(name, _content_length(request), request._request)
        body = {"id": upload.id, "file_name": upload.file_name, "size_bytes": upload.size_bytes}
        return Response(body, status=status.HTTP_201_CREATED)


class UploadView(ResourceView):
    """One upload."""

    http_method_names = ["delete", "options"]

    @extend_schema(responses={204: None})
    def delete(self, request: Request, upload: str) -> Response:
        """Delete an upload that is not needed."""
        uploads.find(upload).path.unlink(missing_ok=True)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _content_length(request: Request) -> int:
    size = read_count(request.headers.get("Content-Length", ""))
    if not size:
        raise InvalidValueError(
            say("The header {name} must be a whole number.", name="Content-Length"),
            parameter="Content-Length",
        )
    return size
