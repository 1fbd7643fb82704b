"""A client for the API, and places in a database that exist."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.http import HttpResponse
from django.test import Client
from django.test.client import ClientHandler

from aggregator.tables.declared.profile import profile_id

API = "/api/v1"


@dataclass(frozen=True)
class Reply:
    """An answer, read to its end."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@cache
def _application() -> ClientHandler:
    """Django's handler with its middleware, which lists all static files when it is made.

    Django's client makes one of its own: half the time of a request.
    """
    handler = ClientHandler(enforce_csrf_checks=True)
    handler.load_middleware()
    return handler


class ApiClient:
    """Asks as a script on the same machine does."""

    def __init__(self, **headers: str) -> None:
        self._client = Client(
            enforce_csrf_checks=True,
            raise_request_exception=False,
            headers={"host": "localhost"} | headers,
        )
        self._client.handler = _application()

    def get(self, path: str, headers: dict[str, str] | None = None, /, **params: Any) -> Reply:
        return self._read(self._client.get(path, params, headers=headers or {}))

    def post(
        self,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> Reply:
        data = body if isinstance(body, str | bytes) else json.dumps(body or {})
        response = self._client.post(path, data, content_type=content_type, headers=headers or {})
        return self._read(response)

    def request(self, method: str, path: str) -> Reply:
        return self._read(self._client.generic(method, path))

    @property
    def cookies(self) -> dict[str, str]:
        return {name: morsel.value for name, morsel in self._client.cookies.items()}

    def set_cookie(self, name: str, value: str) -> None:
        self._client.cookies[name] = value

    @staticmethod
    def _read(response: Any) -> Reply:
        found: HttpResponse = response
        body = b"".join(response.streaming_content) if response.streaming else found.content
        return Reply(found.status_code, body, dict(found.headers))


@dataclass(frozen=True)
class Served:
    """A database that the viewer serves, and places in it that exist."""

    path: Path
    aggregation: int
    iteration: int
    op_id: str

    @property
    def id(self) -> str:
        return profile_id(self.path)

    @property
    def profile(self) -> str:
        return f"{API}/profiles/{self.id}/"

    def at(self, address: str) -> str:
        """Address below the aggregation; a pattern's parts are filled in."""
        filled = address.replace("{iteration}", str(self.iteration)).replace(
            "{op_id}", quote(self.op_id)
        )
        return f"{self.profile}aggregations/{self.aggregation}/{filled}"


def all_rows(api: ApiClient, path: str, **params: str) -> list[dict[str, Any]]:
    """The rows of all pages."""
    rows: list[dict[str, Any]] = []
    while True:
        page = len(rows) // 200 + 1
        body = api.get(path, **params, page=page, page_size=200).json
        rows += body["results"]
        if len(rows) >= body["count"]:
            return rows
