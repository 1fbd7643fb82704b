"""Clients that are slow, silent or gone: nobody else waits for them, and no upload does."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from tests.jobs.running import RunningViewer, environment, running
from tests.jobs.uploading import part_head, port_of
from viewer import web_worker
from viewer.web_worker import ImpatientSocket

#: Many times what an answer takes; a server that waits for such clients needs minutes.
LIMIT_S = 20
THREADS = 4


@pytest.fixture(scope="module")
def viewer(imported: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningViewer]:
    state = tmp_path_factory.mktemp("state")
    with running([imported], environment(state, DLPROF_WEB_THREADS=str(THREADS))) as found:
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [b"", b"GET / HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"],
    ids=["nothing", "half a line", "half a head"],
)
def test_connections_on_which_nothing_comes(
    viewer: RunningViewer, crowd: ExitStack, data: bytes
) -> None:
    for _ in range(100):
        _connect(viewer, crowd, data)
    assert _answers(viewer)


@pytest.mark.slow
def test_clients_that_do_not_close_what_the_server_has_closed(
    viewer: RunningViewer, crowd: ExitStack
) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for _ in range(100):
        _connect(viewer, crowd, request)
    assert _answers(viewer)


@pytest.mark.slow
def test_a_request_may_come_in_pieces(viewer: RunningViewer, crowd: ExitStack) -> None:
    connection = _connect(viewer, crowd)
    for piece in (b"GET /hea", b"lthz HTTP/1.1\r\nHost: loc", b"alhost\r\n", b"\r\n"):
        connection.sendall(piece)
        # Each piece reaches the server by itself.
        assert _answers(viewer)
    assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_requests_one_after_the_other_and_two_at_once(
    viewer: RunningViewer, crowd: ExitStack
) -> None:
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


@pytest.mark.slow
def test_an_upload_goes_on_while_the_server_still_hears_the_lost_connection(
    viewer: RunningViewer, crowd: ExitStack
) -> None:
    """As when a laptop changes its network: no end of the old connection ever arrives."""
    size, sent = 300_000, 200_000
    upload = viewer.post("uploads/", {"file_name": "a.sqlite", "size_bytes": size})["id"]
    lost = _connect(viewer, crowd, part_head(upload, 0, size) + b"x" * sent)
    deadline = time.monotonic() + LIMIT_S
    while (offset := viewer.get(f"uploads/{upload}/")["offset"]) < sent // 2:
        assert time.monotonic() < deadline, "what came of a part is kept while the rest is awaited"
        time.sleep(0.02)

    rest = size - offset
    resumed = _connect(viewer, crowd, part_head(upload, offset, rest) + b"y" * rest)

    assert b"HTTP/1.1 200" in resumed.recv(1 << 16)
    assert viewer.get(f"uploads/{upload}/")["offset"] == size
    # The old one wakes up after all.
    lost.sendall(b"x" * (size - sent))
    assert b"UPLOAD_OFFSET" in _read_all(lost)
    assert viewer.get(f"uploads/{upload}/")["offset"] == size


def _read_all(connection: socket.socket) -> bytes:
    data = b""
    try:
        while block := connection.recv(1 << 16):
            data += block
            if data.endswith(b"}"):
                break
    except ConnectionResetError:
        pass
    return data


def test_silence_is_the_end_of_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_worker, "BODY_SILENCE_S", 0.05)
    here, there = socket.socketpair()
    with here, there:
        patient = ImpatientSocket(here)
        there.sendall(b"abc")

        assert patient.recv(10) == b"abc"
        assert patient.recv(10) == b""
        assert patient.is_silent
        # Whatever comes now belongs to a request that has been given up.
        there.sendall(b"late")
        assert patient.recv(10) == b""


@pytest.mark.slow
def test_heads_alone_are_answered_without_a_word_in_the_log(imported: Path, tmp_path: Path) -> None:
    env = environment(tmp_path / "state", DLPROF_LOG_FORMAT="json")
    with running([imported], env) as viewer:
        profile = viewer.profile_id()
        client = http.client.HTTPConnection(urlsplit(viewer.url).netloc, timeout=LIMIT_S)
        root = f"/api/v1/profiles/{profile}/aggregations/1"
        for path in ("/", "/healthz", "/api/v1/profiles/", f"{root}/ops/",
                     f"{root}/ops/export/?format=csv", "/nothing"):  # fmt: skip
            client.request("HEAD", path)
            reply = client.getresponse()
            assert reply.read() == b"", path
            assert reply.status in {200, 404, 503}, path
        client.close()
        viewer.stop()
        lines = viewer.errors().splitlines()
    messages = [json.loads(line)["message"] for line in lines if line.startswith("{")]
    assert not [message for message in messages if "body" in message]
