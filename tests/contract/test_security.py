"""Who may read, who may change, and the security headers for browsers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.test import Client

from tests.contract.client import API, ApiClient, Served
from viewer import environment as machine
from viewer.environment import own_addresses
from viewer.security.http import HEADERS

TOKEN = "a-token-that-is-hard-to-guess"
PROFILES = f"{API}/profiles/"


@pytest.fixture
def guarded(settings: LazySettings) -> None:
    """A viewer that other machines can reach."""
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, bind="0.0.0.0", token=TOKEN)


def _from_elsewhere(**headers: str) -> Client:
    return Client(headers={"host": "localhost"} | headers, REMOTE_ADDR="192.0.2.7")


@pytest.mark.parametrize("path", ["/", "/healthz", PROFILES, "/nope", "/static/nope.js"])
def test_every_reply_carries_the_headers(api: ApiClient, path: str) -> None:
    headers = api.get(path).headers

    for name, value in HEADERS.items():
        assert headers[name] == value
    policy = headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "unsafe-eval" not in policy


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000"])
def test_loopback_names_are_answered(host: str) -> None:
    assert ApiClient(host=host).get(PROFILES).status == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "192.0.2.1", "a b"])
@pytest.mark.parametrize("path", ["/", PROFILES, "/healthz"])
def test_a_foreign_host_name_is_refused(host: str, path: str) -> None:
    reply = ApiClient(host=host).get(path)

    assert (reply.status, reply.json["error"]["code"]) == (400, "HOST_NOT_ALLOWED")


def test_this_machine_knows_its_own_addresses() -> None:
    assert "127.0.0.1" in own_addresses()


def test_addresses_of_ipv6_are_written_as_a_host_header_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = tmp_path / "if_inet6"
    table.write_text(
        "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n"
        "20010db8000000000000000000000002 04 40 00 80     eth0\n"
    )
    monkeypatch.setattr(machine, "_IF_INET6", table)
    assert [name for name in own_addresses() if ":" in name] == ["[2001:db8::2]"]
    monkeypatch.setattr(machine, "_IF_INET6", tmp_path / "none")
    assert not [name for name in own_addresses() if ":" in name]


def test_on_loopback_another_machine_is_refused() -> None:
    response = _from_elsewhere().get(PROFILES)

    assert (response.status_code, response.json()["error"]["code"]) == (403, "NOT_THIS_MACHINE")


@pytest.mark.parametrize(
    "header",
    [
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Anything",
        "Forwarded",
        "Via",
        "X-Real-IP",
    ],
)
@pytest.mark.parametrize("path", ["/", PROFILES, "/metrics", "/nope"])
def test_without_a_token_no_proxy_is_answered(header: str, path: str) -> None:
    reply = ApiClient(**{header: "127.0.0.1"}).get(path)

    assert (reply.status, reply.json["error"]["code"]) == (403, "PROXY_WITHOUT_TOKEN")


def test_a_proxy_that_adds_no_header_is_known_by_its_protocol() -> None:
    reply = Client(headers={"host": "localhost"}, SERVER_PROTOCOL="HTTP/1.0").get(PROFILES)

    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "PROXY_WITHOUT_TOKEN")


def test_a_proxy_may_ask_whether_the_viewer_runs_and_no_more() -> None:
    proxy = ApiClient(**{"X-Forwarded-For": "127.0.0.1"})

    assert proxy.get("/healthz", deep="1").json == {"status": "ok"}
    assert "worker" in ApiClient().get("/healthz", deep="1").json


# --- changes --------------------------------------------------------------------------------------


@pytest.fixture
def change(nvidia: Served) -> Callable[..., tuple[int, str]]:
    """Send an invalid change; an error about its content means that access was granted."""

    def post(
        content_type: str = "application/json", client: ApiClient | None = None, **headers: str
    ) -> tuple[int, str]:
        address = f"{nvidia.profile}aggregations/"
        reply = (client or ApiClient()).post(address, '{"nope": 1}', content_type, headers=headers)
        return reply.status, reply.json["error"]["code"]

    return post


ALLOWED = (400, "INVALID_VALUE")
REFUSED = (403, "CSRF_FAILED")


def test_a_script_on_this_machine_may_change(change: Callable[..., tuple[int, str]]) -> None:
    assert change() == ALLOWED


def test_our_own_page_may_change(change: Callable[..., tuple[int, str]]) -> None:
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}

    assert change(**own) == ALLOWED


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "https://localhost"},
        {"Origin": "http://localhost:9999"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_foreign_page_may_not_change(
    change: Callable[..., tuple[int, str]], headers: dict[str, str]
) -> None:
    assert change(**headers) == REFUSED


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_requests_that_a_foreign_form_can_send_are_refused(
    change: Callable[..., tuple[int, str]], content_type: str
) -> None:
    assert change(content_type) == REFUSED


def test_the_page_sets_the_cookie_that_a_change_elsewhere_needs(
    change: Callable[..., tuple[int, str]], guarded: None
) -> None:
    client = ApiClient()
    client.get("/", token=TOKEN)
    client.get("/")

    assert change(client=client) == REFUSED
    assert change(client=client, **{"X-CSRFToken": client.cookies["csrftoken"]}) == ALLOWED
    assert change(client=client, **{"X-CSRFToken": "x" * 32}) == REFUSED


# --- token ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("guarded")
class TestToken:
    @pytest.mark.parametrize("path", ["/", PROFILES, f"{API}/schema/", "/nope"])
    def test_request_without_the_token_shows_nothing(self, path: str) -> None:
        response = _from_elsewhere().get(path)

        assert response.status_code == 401
        assert response.json()["error"]["code"] == "TOKEN_MISSING"
        assert response.headers["WWW-Authenticate"] == "Bearer"

    @pytest.mark.parametrize("shown", ["", "wrong", TOKEN[:-1], f"{TOKEN}x", "ä"])
    def test_a_wrong_one_is_as_good_as_none(self, shown: str) -> None:
        assert _from_elsewhere().get(PROFILES, {"token": shown}).status_code == 401
        assert _from_elsewhere(authorization=f"Bearer {shown}").get(PROFILES).status_code == 401

    def test_health_needs_none(self) -> None:
        assert _from_elsewhere().get("/healthz").status_code == 200

    def test_as_bearer_token_it_lets_a_script_look_and_change(
        self, change: Callable[..., tuple[int, str]]
    ) -> None:
        bearer = {"Authorization": f"Bearer {TOKEN}"}

        assert _from_elsewhere(authorization=f"bearer {TOKEN}").get(PROFILES).status_code == 200
        assert change(**bearer) == ALLOWED

    def test_from_the_address_it_moves_into_a_cookie(self) -> None:
        client = _from_elsewhere()

        response = client.get("/", {"token": TOKEN, "view": "ops", "profile": "a b"})

        assert response.status_code == 302
        assert response.headers["Location"] == "/?view=ops&profile=a+b"
        cookie = response.cookies["dlprof_token_8000"]
        assert cookie["httponly"]
        assert cookie["samesite"] == "Lax"
        assert cookie["path"] == "/"
        assert client.get(PROFILES).status_code == 200

    def test_the_way_back_leads_nowhere_else(self) -> None:
        response = _from_elsewhere().generic(
            "GET", "/", QUERY_STRING=f"token={TOKEN}", PATH_INFO="//evil.example/"
        )

        assert response.headers["Location"] == "/evil.example/"


def test_without_auth_on_purpose_everybody_may_look(settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, bind="0.0.0.0", no_auth=True)

    assert _from_elsewhere().get(PROFILES).status_code == 200
    assert _from_elsewhere(via="1.1 proxy").get(PROFILES).status_code == 200


def test_a_large_body_is_not_read(api: ApiClient, nvidia: Served) -> None:
    reply = api.post(f"{nvidia.profile}aggregations/", {"key_node": "x" * 100_000})

    assert (reply.status, reply.json["error"]["code"]) == (413, "BODY_TOO_LARGE")


def test_wrong_tokens_are_logged_once_and_limited(
    guarded: None, caplog: pytest.LogCaptureFixture
) -> None:
    client = _from_elsewhere()
    wrong = {"authorization": "Bearer wrong"}

    statuses = [client.get(PROFILES, headers=wrong).status_code for _ in range(25)]

    assert statuses == [401] * 20 + [429] * 5
    assert [record.message for record in caplog.records] == [
        "refused a request without the token from 192.0.2.7"
    ]
    right = {"authorization": f"Bearer {TOKEN}"}
    assert client.get(PROFILES, headers=right).status_code == 200
    assert client.get(PROFILES).status_code == 401
