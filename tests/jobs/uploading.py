"""Uploads to a running viewer: whole files, and parts as they go over the wire."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from tests.jobs.running import WAIT_LIMIT_S, RunningViewer

PART_TYPE = "application/offset+octet-stream"


def send_file(viewer: RunningViewer, path: Path) -> str:
    """Upload a file in as many parts as the viewer wants; the id of the upload."""
    data = path.read_bytes()
    begun = viewer.post("uploads/", {"file_name": path.name, "size_bytes": len(data)})
    send_rest(viewer, begun["id"], data)
    found: str = begun["id"]
    return found


def send_rest(viewer: RunningViewer, upload: str, data: bytes) -> None:
    """Go on with an upload from where it is to its end."""
    while True:
        state = viewer.get(f"uploads/{upload}/")
        if state["offset"] == len(data):
            return
        request = Request(
            f"{viewer.url}/api/v1/uploads/{upload}/",
            data[state["offset"] : state["offset"] + state["chunk_bytes"]],
            {"Content-Type": PART_TYPE, "Upload-Offset": str(state["offset"])},
            method="PATCH",
        )
        urlopen(request, timeout=WAIT_LIMIT_S).close()


def part_head(upload: str, offset: int, size: int) -> bytes:
    """Head of a request that sends a part."""
    return (
        f"PATCH /api/v1/uploads/{upload}/ HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: {PART_TYPE}\r\nUpload-Offset: {offset}\r\n"
        f"Content-Length: {size}\r\n\r\n"
    ).encode()


def port_of(viewer: RunningViewer) -> int:
    """Where it listens."""
    port = urlsplit(viewer.url).port
    assert port is not None
    return port
