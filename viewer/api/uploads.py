"""Uploads: begun by POST, gone on with by PATCH, asked about by GET or HEAD, given up by DELETE."""

from __future__ import annotations

from typing import Any

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.query.request import check_parameters
from aggregator.texts import say
from viewer.api.base import ResourceView
from viewer.api.documents import Parameter, Schema
from viewer.api.payloads import read_object, read_size, read_text
from viewer.api.scope import environment
from viewer.api.shapes import NEW_UPLOAD, UPLOAD
from viewer.jobs.models import Upload
from viewer.profiles import uploads
from viewer.security.client import client_of

PART_TYPE = "application/offset+octet-stream"
OFFSET_HEADER = "Upload-Offset"
_MAX_FILE_NAME = 255


class UploadsView(ResourceView):
    """Begin an upload."""

    http_method_names = ["post", "options"]
    success_status = status.HTTP_201_CREATED

    def body(self, method: str) -> Schema | None:
        """What is to come."""
        return NEW_UPLOAD

    def reply(self, method: str) -> Schema:
        """The upload."""
        return UPLOAD

    def post(self, request: Request) -> Response:
        """Make room for a file of a name and a size."""
        check_parameters(request.query_params.dict(), [])
        body = read_object(request.data, ("file_name", "size_bytes"))
        name = read_text(body, "file_name", _MAX_FILE_NAME)
        if not name:
            raise InvalidValueError(say("file_name must not be empty."), parameter="file_name")
        upload = uploads.begin(name, read_size(body, "size_bytes"), client_of(request._request))
        return _reply(upload, 0, status.HTTP_201_CREATED)


class UploadView(ResourceView):
    """One upload."""

    http_method_names = ["get", "head", "patch", "delete", "options"]

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """None in the address; a part says in a header where it begins."""
        return ()

    def body(self, method: str) -> Schema | None:
        """The bytes of a part."""
        return {"type": "string", "format": "binary"} if method == "PATCH" else None

    def body_type(self, method: str) -> str:
        """Bytes, and said to be."""
        return PART_TYPE

    def header_parameters(self, method: str) -> tuple[Parameter, ...]:
        """Where a part begins."""
        schema = (("type", "integer"), ("minimum", 0))
        text = "Where the part begins: the offset that the last reply gave."
        return (Parameter(OFFSET_HEADER, text, schema),) if method == "PATCH" else ()

    def reply(self, method: str) -> Schema:
        """The upload; nothing once it is given up."""
        return {} if method == "DELETE" else UPLOAD

    def status_of(self, method: str) -> int:
        """An upload that is given up leaves nothing to say."""
        return status.HTTP_204_NO_CONTENT if method == "DELETE" else status.HTTP_200_OK

    def get(self, request: Request, upload: str) -> Response:
        """How much is here."""
        check_parameters(request.query_params.dict(), [])
        found = uploads.find(upload)
        return _reply(found, uploads.offset(found))

    def patch(self, request: Request, upload: str) -> Response:
        """Write a part."""
        check_parameters(request.query_params.dict(), [])
        found = uploads.find(upload)
        begins_at = _header(request, OFFSET_HEADER)
        length = _header(request, "Content-Length")
        # Not request.data: the part goes from the socket to the disk, never whole into memory.
        return _reply(found, uploads.append(found, begins_at, length, request._request))

    def delete(self, request: Request, upload: str) -> Response:
        """Give it up."""
        check_parameters(request.query_params.dict(), [])
        uploads.give_up(uploads.find(upload))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _header(request: Request, name: str) -> int:
    raw = request.headers.get(name, "")
    if not (raw.isascii() and raw.isdecimal()) or len(raw) > 18:
        raise InvalidValueError(
            say("The header {name} must be a whole number.", name=name), parameter=name
        )
    return int(raw)


def _reply(upload: Upload, offset: int, code: int = status.HTTP_200_OK) -> Response:
    body: dict[str, Any] = {
        "id": upload.id,
        "file_name": upload.file_name,
        "size_bytes": upload.size_bytes,
        "offset": offset,
        "chunk_bytes": environment().upload_chunk_bytes,
    }
    headers = {OFFSET_HEADER: str(offset), "Upload-Length": str(upload.size_bytes)}
    return Response(body, status=code, headers=headers)
