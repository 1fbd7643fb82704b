"""The one page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.conf import LazySettings

from tests.contract.client import ApiClient

MANIFEST = {
    "src/main.tsx": {
        "file": "assets/main.0123456789ab.js",
        "isEntry": True,
        "imports": ["_shared.js"],
        "css": ["assets/main.css"],
    },
    "_shared.js": {"file": "assets/shared.js", "css": ["assets/shared.css"]},
    "src/late.ts": {"file": "assets/late.js", "isDynamicEntry": True},
}


@pytest.fixture
def static_files(tmp_path: Path, settings: LazySettings) -> Path:
    settings.STATIC_FILES = tmp_path
    return tmp_path


def test_without_a_build_the_page_says_what_to_do(api: ApiClient, static_files: Path) -> None:
    reply = api.get("/")

    assert reply.status == 503
    assert b"make frontend" in reply.body


def test_the_page_loads_what_the_build_made(api: ApiClient, static_files: Path) -> None:
    manifest = static_files / "dlprof" / ".vite" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps(MANIFEST))

    reply = api.get("/", view="ops", anything="goes")

    assert reply.status == 200
    page = reply.body.decode()
    assert '<html lang="en">' in page
    order = [
        page.index(part)
        for part in (
            '<script src="/static/dlprof/theme-boot.js">',
            '<link rel="stylesheet" href="/static/dlprof/assets/shared.css">',
            '<link rel="stylesheet" href="/static/dlprof/assets/main.css">',
            '<link rel="modulepreload" href="/static/dlprof/assets/shared.js">',
            '<script type="module" src="/static/dlprof/assets/main.0123456789ab.js">',
            '<div id="app">',
        )
    ]
    assert order == sorted(order)
    assert "late.js" not in page
    # The policy forbids scripts inside the page.
    assert "<script>" not in page


def test_an_unknown_path_is_a_page_for_a_browser_and_an_error_for_a_script(
    api: ApiClient, static_files: Path
) -> None:
    manifest = static_files / "dlprof" / ".vite" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps(MANIFEST))
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

    page = api.get("/foo", browser)
    script = api.get("/foo")
    of_the_api = api.get("/api/v1/foo", browser)

    assert (page.status, page.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert b'<div id="app">' in page.body
    assert (script.status, script.json["error"]["code"]) == (404, "NOT_FOUND")
    assert (of_the_api.status, of_the_api.json["error"]["code"]) == (404, "NOT_FOUND")


def test_the_page_is_read_only(api: ApiClient) -> None:
    assert api.post("/").status == 405


def test_health_says_only_that_the_server_runs(api: ApiClient) -> None:
    reply = api.get("/healthz")

    assert (reply.status, reply.json) == (200, {"status": "ok"})
