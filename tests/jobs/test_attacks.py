"""A viewer that other machines can reach, attacked over raw sockets as a stranger would.

Everything of a request that a client library would tidy up is sent as it is: request lines, paths,
Host headers, methods.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from scripts.write_openapi import document
from tests.builders import analyze_file
from tests.fuzz.exports import small_export
from tests.jobs.running import WAIT_LIMIT_S, RunningViewer, environment, running

REFUSED = {401, 403}
#: Refused by the web server or the host check, before the token is checked.
NEVER_SHOWN = REFUSED | {400, 404, 405, 414, 431, 501}
ODD_METHODS = ("TRACE", "CONNECT", "PUT", "PROPFIND", "MKCOL", "LOCK", "SEARCH", "FOO")
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PATCH", "DELETE")
#: Every so many addresses of the API are asked with odd methods too: they share one code.
ODD_EVERY = 8
PROFILES = "/api/v1/profiles/"


@dataclass(frozen=True)
class Answer:
    """A reply as it came."""

    status: int
    head: str
    body: bytes


@dataclass(frozen=True)
class Target:
    """The viewer, and what it guards."""

    viewer: RunningViewer
    port: int
    token: str
    database: Path
    state: Path

    def send(self, line: str, *headers: str, host: str | None = "", body: bytes = b"") -> Answer:
        """Send a request line with headers; a host of None sends no such header."""
        named = f"127.0.0.1:{self.port}" if host == "" else host
        lines = [line, *([f"Host: {named}"] if named is not None else []), *headers]
        lines += ["Connection: close", f"Content-Length: {len(body)}", "", ""]
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_LIMIT_S) as connection:
            with suppress(BrokenPipeError):
                connection.sendall("\r\n".join(lines).encode("latin-1") + body)
            data = b""
            with suppress(ConnectionResetError):
                while block := connection.recv(1 << 16):
                    data += block
        head, _, content = data.partition(b"\r\n\r\n")
        found = re.match(rb"HTTP/1\.\d (\d+)", head)
        return Answer(int(found[1]) if found else 0, head.decode("latin-1"), content)

    def ask(self, method: str, path: str, *headers: str, host: str | None = "") -> Answer:
        return self.send(f"{method} {path} HTTP/1.1", *headers, host=host)

    @property
    def bearer(self) -> str:
        return f"Authorization: Bearer {self.token}"

    def hashes(self) -> dict[str, str]:
        """Of every file that the viewer serves or stores, logs of SQLite's left out."""
        files = [*self.database.parent.rglob("*"), *(self.state / "profiles").rglob("*")]
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(files)
            if path.is_file()
        }


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("attacked")
    served = folder / "served"
    served.mkdir()
    small_export().write(folder / "export.sqlite")
    analyze_file(folder / "export.sqlite", folder / "dldb.sqlite")
    shutil.copyfile(folder / "dldb.sqlite", served / "dldb.sqlite")
    env = environment(folder / "state")
    with running(["--bind", "0.0.0.0", served], env) as viewer:
        parts = urlsplit(viewer.url)
        token = parts.query.removeprefix("token=")
        assert len(token) >= 32
        assert parts.port is not None
        yield Target(viewer, parts.port, token, served / "dldb.sqlite", folder / "state")


def _addresses(profile: str) -> list[str]:
    """Every address of the document, the page, and files that are built."""
    holes = {"profile": profile, "aggregation": "1", "iteration": "2", "op_id": "x"}
    filled = [
        re.sub(r"\{(\w+)\}", lambda hole: holes.get(hole[1], "iteration-summary"), path)
        for path in document()["paths"]
    ]
    return [*filled, "/", "/metrics", "/api/v1/schema/", "/nothing", "/admin/"]


@pytest.fixture(scope="module")
def profile(target: Target) -> str:
    reply = target.ask("GET", PROFILES, target.bearer)
    assert reply.status == 200
    found: str = json.loads(reply.body)["results"][0]["id"]
    return found


@pytest.fixture(autouse=True)
def _nothing_gets_out(target: Target) -> Iterator[None]:
    """The processes are alive and logged no internal error."""
    yield
    assert target.viewer.process.poll() is None
    assert target.ask("GET", "/healthz").status == 200


def _assert_refused(reply: Answer, what: object, statuses: set[int] = NEVER_SHOWN) -> None:
    assert reply.status in statuses, (what, reply.status, reply.body[:200])
    assert b"Traceback" not in reply.body
    assert b"dldb" not in reply.body, what


def _odd_methods(number: int) -> tuple[str, ...]:
    """For the first addresses, which are not of the API, and some of the others."""
    return ODD_METHODS if number < ODD_EVERY or number % ODD_EVERY == 0 else ()


def test_every_address_is_refused_without_a_token(target: Target, profile: str) -> None:
    for number, address in enumerate(reversed(_addresses(profile))):
        for method in (*METHODS, *_odd_methods(number)):
            reply = target.ask(method, address)
            _assert_refused(reply, (method, address), REFUSED)
            assert "Content-Security-Policy: " in reply.head, (method, address)
            assert "script-src 'self'" in reply.head


def test_odd_methods_are_refused_with_the_token(target: Target, profile: str) -> None:
    """No address accepts a method that it does not offer, and each lists its methods."""
    before = target.hashes()
    addresses = [*_addresses(profile), "/healthz", "/healthz?deep=1", "/static/x"]
    for number, address in enumerate(reversed(addresses)):
        offered = target.ask("OPTIONS", address, target.bearer)
        for method in (*_odd_methods(number), "POST", "PATCH", "DELETE"):
            allowed = re.findall(r"(?im)^allow: (.*)", offered.head)
            if allowed and method in allowed[0]:
                continue
            reply = target.ask(method, address, target.bearer)
            is_there = offered.status != 404
            assert reply.status == (405 if is_there else 404), (method, address, reply.status)
            code = "METHOD_NOT_ALLOWED" if is_there else "NOT_FOUND"
            assert json.loads(reply.body)["error"]["code"] == code
            assert not is_there or re.search(r"(?im)^allow: [A-Z]", reply.head)
    assert target.hashes() == before


@pytest.mark.parametrize(
    "path",
    [
        *("//", "///api/v1/profiles/", "/api//v1/profiles/", "/./api/v1/profiles/", "/api/v1"),
        *("/static/../api/v1/profiles/", "/static/..%2fapi/v1/profiles/", "/healthz/../metrics"),
        *("/%2e%2e/%2e%2e/etc/passwd", "/static/%2e%2e/%2e%2e/settings.py", "/static/..;/x.py"),
        *("/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/....//....//settings.py"),
        *("/static/dlprof/../../settings.py", "/static/%00", "/static/\\..\\..\\settings.py"),
        *("/healthz%2f..%2fapi/v1/profiles/", "/HEALTHZ", "/healthz;/api/v1/profiles/"),
        *("/Static/x", "/api/v1/profiles"),
        *("/healthz/", "/healthz/x", "/staticx", "/static/../metrics", "/static/%2e%2e/metrics"),
        *("/api/v1/profiles/%2e%2e/", "/api/v1/profiles/?token=", "/?token=x", "/?token=%00"),
        *("/api/v1/profiles/?_method=GET", "/api/v1/profiles/#/static/", "/%61pi/v1/profiles/"),
        *("*", "http://127.0.0.1/api/v1/profiles/", "http://evil.example/api/v1/profiles/"),
    ],
)  # fmt: skip
def test_no_path_leads_round_the_guard(target: Target, path: str) -> None:
    _assert_refused(target.ask("GET", path), path)


@pytest.mark.parametrize(
    "header",
    [
        *("X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1", "Forwarded: for=127.0.0.1"),
        *("X-Original-URL: /healthz", "X-Rewrite-URL: /static/x", "X-Forwarded-Prefix: /static"),
        *("X-HTTP-Method-Override: GET", "X-Script-Name: /static", "SCRIPT_NAME: /static"),
        *("Authorization: Bearer ", "Authorization: Bearer null", "Authorization: Basic dG9rZW46"),
        *("Cookie: dlprof_token=", "Cookie: dlprof_token_8000=", "Cookie: csrftoken=x"),
        *("Remote-Addr: 127.0.0.1", "REMOTE_ADDR: 127.0.0.1", "Origin: http://127.0.0.1"),
    ],
)
def test_headers_give_no_access(target: Target, header: str) -> None:
    for method, path in (("GET", PROFILES), ("POST", PROFILES), ("GET", "/")):
        _assert_refused(target.ask(method, path, header), (header, path))


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:80", "localhost.evil.example", "evil.example."),
        *("[::1].evil.example", "[::1%25x]", "127.0.0.1.nip.example", "localhost@evil.example"),
        *("127.0.0.1 evil.example", "localhost/evil.example", "localhost#", "\x00localhost"),
        *("localhost, evil.example", "2130706433", "0x7f.1", "127.1", "0.0.0.0"),
        *("a" * 300, "[::ffff:127.0.0.1]", None, " ", "169.254.169.254"),
    ],
)  # fmt: skip
def test_other_host_names_are_refused_with_the_token(target: Target, host: str | None) -> None:
    for path in (PROFILES, "/", "/healthz"):
        reply = target.ask("GET", path, target.bearer, host=host)
        assert reply.status == 400, (host, path, reply.status)
        _assert_refused(reply, host)


@pytest.mark.parametrize("header", ["X-Forwarded-Host", "X-Host", "X-Forwarded-Server"])
def test_a_forwarded_host_changes_nothing(target: Target, header: str) -> None:
    reply = target.ask("GET", "/", f"{header}: evil.example", target.bearer)
    assert reply.status == 200
    assert b"evil.example" not in reply.body
    moved = target.ask("GET", f"/?token={target.token}", f"{header}: evil.example")
    assert moved.status == 302
    assert "Location: /\r\n" in moved.head + "\r\n"
    assert target.ask("GET", PROFILES, target.bearer, host="evil.example").status == 400


@pytest.mark.parametrize("host", ["LOCALHOST", "localhost.", "127.0.0.1:1", "[::1]:9"])
def test_other_spellings_of_this_machine_still_need_the_token(target: Target, host: str) -> None:
    _assert_refused(target.ask("GET", PROFILES, host=host), host)


def test_an_absolute_request_line_names_the_host(target: Target) -> None:
    """A request for an unknown host name gets no content."""
    line = f"GET http://evil.example{PROFILES} HTTP/1.1"
    _assert_refused(target.send(line), line)
    _assert_refused(target.send(line, host="evil.example"), line)


def test_hidden_second_request_is_not_answered(target: Target) -> None:
    """A second request hidden in the body of the first is the body, not a request."""
    inner = f"GET {PROFILES} HTTP/1.1\r\nHost: 127.0.0.1\r\n{target.bearer}\r\n\r\n"
    for extra in (
        ("Transfer-Encoding: chunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Content-Length: 0",),
        ("Transfer-Encoding : chunked",),
    ):
        reply = target.send("POST /healthz HTTP/1.1", *extra, body=b"0\r\n\r\n" + inner.encode())
        assert b"dldb" not in reply.body, extra
        assert reply.body.count(b"HTTP/1.1") == 0, extra


# --- changes --------------------------------------------------------------------------------------


def _changes(profile: str) -> list[tuple[str, str]]:
    return [
        ("POST", PROFILES),
        ("PATCH", f"{PROFILES}{profile}/"),
        ("DELETE", f"{PROFILES}{profile}/"),
        ("POST", f"{PROFILES}{profile}/aggregations/"),
        ("PATCH", f"{PROFILES}{profile}/aggregations/1/"),
        ("DELETE", f"{PROFILES}{profile}/aggregations/1/"),
        ("POST", "/api/v1/uploads/"),
        ("DELETE", "/api/v1/uploads/x/"),
        ("POST", "/api/v1/jobs/x/cancel/"),
        ("POST", "/api/v1/jobs/x/retry/"),
        ("POST", "/api/v1/running-jobs/"),
    ]


def test_every_change_is_in_the_list(profile: str) -> None:
    described = {
        (method.upper(), re.sub(r"\{\w+\}", "*", path))
        for path, operations in document()["paths"].items()
        for method in operations
        if method not in {"get", "head", "options"}
    }
    listed = {
        (method, re.sub(rf"/({profile}|x|1)/", "/*/", path)) for method, path in _changes(profile)
    }
    assert described == listed


@pytest.mark.parametrize(
    "origin",
    [
        *("Origin: http://evil.example", "Origin: null", "Referer: http://evil.example/"),
        *("Sec-Fetch-Site: cross-site", "Content-Type: text/plain", "X-HTTP-Method-Override: GET"),
    ],
)
def test_a_cookie_alone_changes_nothing(target: Target, profile: str, origin: str) -> None:
    """What a foreign page can send: the cookie comes along, the CSRF token does not."""
    cookie = f"Cookie: dlprof_token_{target.port}={target.token}; csrftoken={'a' * 32}"
    before = target.hashes()
    kind = [] if origin.startswith("Content-Type") else ["Content-Type: application/json"]
    for method, path in _changes(profile):
        reply = target.ask(method, path, cookie, origin, *kind)
        assert reply.status == 403, (method, path, reply.status)
        assert b"CSRF_FAILED" in reply.body
    assert target.hashes() == before


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "/proc/self/environ", "/proc/self/root/etc/passwd", "/dev/zero"),
        *("{served}/../export.sqlite", "{served}/../dldb.sqlite", "{served}/link.sqlite", "", "."),
        *("{served}/dldb.sqlite\x00.txt", "file://{served}/dldb.sqlite", "~/x", "a" * 5_000),
        *("{served}", "{served}/", "{served}/DLDB.SQLITE", "dldb.sqlite", "{state}/viewer.sqlite3"),
        *("/proc/self/fd/0", "/proc/self/cwd/x", "{served}/fifo", "{state}/secret_key", "\ud800"),
        *("/etc/*", "/etc/pass*", "/proc/*/environ", "{served}/../*.sqlite", "{served}/../*"),
        *("{served}/*/../../*.sqlite", "[a-z]*", "/**", "{state}/*", "{served}/link*", "/etc"),
    ],
)  # fmt: skip
def test_paths_outside_are_not_registered(target: Target, path: str) -> None:
    served = target.database.parent
    link = served / "link.sqlite"
    link.unlink(missing_ok=True)
    link.symlink_to(served.parent / "export.sqlite")
    wanted = path.replace("{served}", str(served)).replace("{state}", str(target.state))
    fifo = served / "fifo"
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)
    for value in ({"path": wanted}, {"paths": [wanted, f"{wanted}2"]}):
        reply = target.send(
            f"POST {PROFILES} HTTP/1.1", target.bearer, "Content-Type: application/json",
            body=json.dumps(value).encode(),
        )  # fmt: skip
        assert reply.status in {400, 403}, (value, reply.status, reply.body)
        # The reply does not reveal whether there is such a file.
        assert b"root:" not in reply.body
    link.unlink()
    fifo.unlink()


@pytest.mark.parametrize(
    "name",
    ["../../evil.sqlite", "/tmp/evil.sqlite", "..", "a/b\\c.sqlite", "x" * 240 + ".sqlite", "con",
     "-rf.sqlite", "$(id).sqlite", "=cmd|' /C calc'!A0.sqlite", "<img src=x>.sqlite"],
)  # fmt: skip
def test_names_of_uploads_are_no_paths(target: Target, name: str) -> None:
    kind = "Content-Type: application/json"
    begun = target.send(
        f"POST /api/v1/uploads/?file_name={quote(name)} HTTP/1.1", target.bearer,
        "Content-Type: application/octet-stream", body=target.database.read_bytes(),
    )  # fmt: skip
    assert begun.status == 201, begun.body
    upload = json.loads(begun.body)["id"]
    body = json.dumps({"upload": upload}).encode()
    made = target.send(f"POST {PROFILES} HTTP/1.1", target.bearer, kind, body=body)
    assert made.status == 201, made.body
    stored = [path for path in (target.state / "profiles").rglob("*") if path.is_file()]
    assert len(stored) == 1
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,100}", stored[0].name)
    removed = target.ask("DELETE", f"{PROFILES}{json.loads(made.body)['id']}/", target.bearer)
    assert removed.status == 200, removed.body
    assert not [path for path in (target.state / "profiles").rglob("*") if path.is_file()]


def test_deleting_a_users_file_keeps_it(target: Target) -> None:
    before = target.hashes()
    profiles = json.loads(target.ask("GET", PROFILES, target.bearer).body)["results"]
    for found in profiles:
        assert target.ask("DELETE", f"{PROFILES}{found['id']}/", target.bearer).status == 200
    assert json.loads(target.ask("GET", PROFILES, target.bearer).body)["count"] == 0
    assert target.hashes() == before
    # Listed again for the tests that this process may be given after this one.
    body = json.dumps({"path": str(target.database)}).encode()
    kind = "Content-Type: application/json"
    again = target.send(f"POST {PROFILES} HTTP/1.1", target.bearer, kind, body=body)
    assert again.status == 201, again.body
    assert json.loads(again.body)["id"] == profiles[0]["id"]
