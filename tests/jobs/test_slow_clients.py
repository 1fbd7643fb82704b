"""Clients that are slow, silent or gone do not keep others waiting."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from tests.jobs.running import RunningViewer, environment, running
from tests.jobs.uploading import port_of, upload_head

#: Many times what an answer takes; a server that waits for such clients needs minutes.
LIMIT_S = 20
SLOW_CLIENTS = 200
STATIC = Path(__file__).resolve().parents[2] / "viewer/static/dlprof"


@pytest.fixture(scope="module")
def viewer(
    demo_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningViewer]:
    state = tmp_path_factory.mktemp("state")
    # Its log is read by test_heads_alone.
    with running([demo_database], environment(state, DLPROF_LOG_FORMAT="json")) as found:
        yield found


@pytest.fixture
def crowd() -> Iterator[ExitStack]:
    """Connections that are open until the end of the test."""
    with ExitStack() as stack:
        yield stack


def _connect(viewer: RunningViewer, crowd: ExitStack, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port_of(viewer)), timeout=LIMIT_S)
    crowd.callback(connection.close)
    connection.sendall(data)
    return connection


def _answers(viewer: RunningViewer) -> bool:
    with urlopen(f"{viewer.url}/healthz", timeout=LIMIT_S) as reply:
        return reply.read() == b'{"status": "ok"}'


@pytest.mark.parametrize(
    "data",
    [b"", b"GET / HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"],
    ids=["nothing", "half a line", "half a head"],
)
def test_connections_on_which_nothing_comes(
    viewer: RunningViewer, crowd: ExitStack, data: bytes
) -> None:
    for _ in range(SLOW_CLIENTS):
        _connect(viewer, crowd, data)
    assert _answers(viewer)


def test_clients_that_do_not_close_what_the_server_has_closed(
    viewer: RunningViewer, crowd: ExitStack
) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for _ in range(SLOW_CLIENTS):
        _connect(viewer, crowd, request)
    assert _answers(viewer)
    for _ in range(SLOW_CLIENTS):
        _connect(viewer, crowd, b"nothing that is HTTP\r\n\r\n")
    assert _answers(viewer)


def test_a_request_may_come_in_pieces(viewer: RunningViewer, crowd: ExitStack) -> None:
    connection = _connect(viewer, crowd)
    for piece in (b"GET /hea", b"lthz HTTP/1.1\r\nHost: loc", b"alhost\r\n", b"\r\n"):
        connection.sendall(piece)
        # Each piece reaches the server by itself.
        assert _answers(viewer)
    assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_one_connection_takes_several_requests(viewer: RunningViewer, crowd: ExitStack) -> None:
    client = http.client.HTTPConnection(urlsplit(viewer.url).netloc, timeout=LIMIT_S)
    crowd.callback(client.close)
    for _ in range(3):
        client.request("GET", "/healthz")
        assert client.getresponse().read() == b'{"status": "ok"}'
        assert client.sock is not None, "the connection is kept"
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    connection = _connect(viewer, crowd, request * 2)
    data = b""
    while data.count(b'{"status": "ok"}') < 2:
        block = connection.recv(1 << 16)
        assert block, data
        data += block


@pytest.mark.parametrize(
    "head",
    [
        upload_head("a.sqlite", 1 << 20),
        (
            b"POST /api/v1/profiles/ HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
        ),
    ],
    ids=["upload", "JSON"],
)
def test_trickling_bodies_stop_no_other_client(
    viewer: RunningViewer, crowd: ExitStack, head: bytes
) -> None:
    clients = [_connect(viewer, crowd, head + b"x") for _ in range(SLOW_CLIENTS)]
    for _ in range(3):
        for client in clients:
            client.sendall(b"x")
        assert _answers(viewer)
        assert viewer.get("profiles/")["count"] == 1


def test_trickling_heads_stop_no_other_client(viewer: RunningViewer, crowd: ExitStack) -> None:
    clients = [_connect(viewer, crowd, b"GET /healthz HTTP/1.1\r\n") for _ in range(SLOW_CLIENTS)]
    for number in range(3):
        for client in clients:
            client.sendall(b"X-Slow: %d\r\n" % number)
        assert _answers(viewer)
        assert viewer.get("profiles/")["count"] == 1


REQUESTS = 40
"""Replies of a quarter of a megabyte: more than the system buffers of a connection."""


def test_clients_that_do_not_read_stop_no_other_client(
    viewer: RunningViewer, crowd: ExitStack
) -> None:
    script = max(STATIC.glob("assets/*.js"), key=lambda path: path.stat().st_size)
    request = f"GET /static/{script.relative_to(STATIC.parent)} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for _ in range(SLOW_CLIENTS):
        slow = socket.socket()
        crowd.callback(slow.close)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", port_of(viewer)))
        # Together the replies fill the buffers of the system.
        slow.sendall(request.encode() * REQUESTS)
    assert _answers(viewer)
    assert viewer.get("profiles/")["count"] == 1


@pytest.mark.parametrize(
    ("request_line", "status", "code"),
    [
        ("GET /" + "x" * 9_000, 414, "ADDRESS_TOO_LONG"),
        ("GET / HTTP/1.1\r\nX: " + "x" * 9_000, 431, "HEADERS_TOO_LARGE"),
        ("nothing that is HTTP", 400, "BAD_REQUEST"),
    ],
)
def test_requests_that_cannot_be_parsed_get_json(
    viewer: RunningViewer, crowd: ExitStack, request_line: str, status: int, code: str
) -> None:
    connection = _connect(viewer, crowd, f"{request_line}\r\n\r\n".encode())
    reply = http.client.HTTPResponse(connection)
    reply.begin()

    assert (reply.status, json.load(reply)["error"]["code"]) == (status, code)


@pytest.mark.django_db
def test_a_body_that_takes_too_long_is_ended() -> None:
    # Its import prepares the state, which the test database stands for.
    from viewer import wsgi

    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"ab")

        def application(environ: dict[str, Any], start: object) -> list[bytes]:
            return [here.recv(2), here.recv(2)]

        slow = wsgi.with_body_deadline(application)
        environ = {"CONTENT_LENGTH": "4", "gunicorn.socket": here}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(wsgi, "_BODY_S", 0.1)
            assert list(slow(environ, lambda: None)) == [b"ab", b""]


def test_heads_alone_are_answered_without_a_word_in_the_log(
    viewer: RunningViewer, crowd: ExitStack
) -> None:
    before = len(viewer.errors())
    client = http.client.HTTPConnection(urlsplit(viewer.url).netloc, timeout=LIMIT_S)
    crowd.callback(client.close)
    root = f"/api/v1/profiles/{viewer.profile_id()}/aggregations/1"
    for path in ("/", "/healthz", "/api/v1/profiles/", f"{root}/ops/",
                 f"{root}/ops/export/?format=csv", "/nothing"):  # fmt: skip
        client.request("HEAD", path)
        reply = client.getresponse()
        assert reply.read() == b"", path
        assert reply.status in {200, 404, 503}, path
    # On the same connection, so that the log holds the requests before.
    client.request("GET", "/healthz")
    assert client.getresponse().read()
    lines = viewer.errors()[before:].splitlines()
    messages = [json.loads(line)["message"] for line in lines if line.startswith("{")]
    assert not [message for message in messages if "body" in message]


def test_a_refused_upload_shows_its_reason_to_clients_that_send_all_first(
    demo_database: Path, tmp_path: Path
) -> None:
    env = environment(tmp_path / "state", DLPROF_MAX_PROFILE_BYTES="1000")
    with running([demo_database], env) as viewer:
        for _ in range(5):
            client = http.client.HTTPConnection("127.0.0.1", port_of(viewer), timeout=LIMIT_S)
            headers = {"Content-Type": "application/octet-stream"}
            client.request("POST", "/api/v1/uploads/?file_name=a.sqlite", b"x" * 8_000_000, headers)
            reply = client.getresponse()
            assert (reply.status, json.load(reply)["error"]["code"]) == (413, "PROFILE_TOO_LARGE")
            client.close()
