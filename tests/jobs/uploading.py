"""Uploads to a running viewer."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from tests.jobs.running import WAIT_LIMIT_S, RunningViewer

UPLOAD_TYPE = "application/octet-stream"


def send_file(viewer: RunningViewer, path: Path) -> str:
    """Upload a file; returns the id of the upload."""
    request = Request(
        f"{viewer.url}/api/v1/uploads/?file_name={quote(path.name)}",
        path.read_bytes(),
        {"Content-Type": UPLOAD_TYPE},
    )
    with urlopen(request, timeout=WAIT_LIMIT_S) as reply:
        return str(json.load(reply)["id"])


def upload_head(name: str, size: int) -> bytes:
    """Head of a request that sends a file."""
    return (
        f"POST /api/v1/uploads/?file_name={quote(name)} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: {UPLOAD_TYPE}\r\nContent-Length: {size}\r\n\r\n"
    ).encode()


def port_of(viewer: RunningViewer) -> int:
    """Port that the viewer listens on."""
    port = urlsplit(viewer.url).port
    assert port is not None
    return port
