"""``dlprof mcp`` with the client of the protocol's own SDK: questions, sizes, limits, access."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import psutil
import pytest

from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress
from profiler_cli.assistants.profiles import Profiles, name_profiles
from tests.conftest import ProfileFactory
from tests.jobs.running import WAIT_LIMIT_S, free_port

# Not imported here: that takes seconds in each test process.
pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is not installed")

VIEWER = "http://viewer.example:8000"
Ask = Callable[..., dict[str, Any]]


def make_server(profiles: Profiles) -> Any:
    from profiler_cli.assistants import server

    return server.make_server(profiles)


def client_of(server: object) -> Any:
    from mcp import Client

    return Client(server)


@pytest.fixture(scope="module")
def databases(imported: ProfileFactory, demo_profile: Path, tmp_path_factory: Any) -> list[Path]:
    """The demo, and the same program without Tensor Cores."""
    demo = tmp_path_factory.mktemp("demo") / "demo.sqlite"
    import_profile(ImportOptions(demo_profile, demo), NullProgress())
    return [demo, imported("pytorch_resnet50_fp32"), imported("ddp2_resnet50_amp")]


@pytest.fixture(scope="module")
def profiles(databases: list[Path]) -> Profiles:
    return Profiles(name_profiles([(path, path) for path in databases]), VIEWER)


@pytest.fixture(scope="module")
def names(profiles: Profiles) -> list[str]:
    return list(profiles.known)


@pytest.fixture(scope="module")
def ask(profiles: Profiles) -> Ask:
    server = make_server(profiles)

    def asked(tool: str, **arguments: Any) -> dict[str, Any]:
        async def call() -> Any:
            async with client_of(server) as client:
                return await client.call_tool(tool, arguments)

        result = run(call())
        text = result.content[0].text
        assert not result.is_error, text
        assert len(text.encode()) <= arguments.get("max_bytes", 4_000)
        return dict(json.loads(text))

    return asked


def run(call: Coroutine[Any, Any, Any]) -> Any:
    # In a thread: the tests in a browser leave an event loop in the one they run in.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call).result()


def scalar(path: Path, sql: str, *values: Any) -> Any:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(sql, values).fetchone()[0]


def test_why_is_it_slow(ask: Ask, names: list[str], databases: list[Path]) -> None:
    found = ask("summary", profile=names[1])
    assert found["verdict"]["limit"] == "compute"
    sql = "SELECT advice_name FROM view_advice WHERE status = 'found' ORDER BY aggr_id DESC, place"
    assert found["advice"][0]["advice"] == scalar(databases[1], sql)
    assert found["link"].startswith(f"{VIEWER}/?profile=")


def test_what_should_i_change_and_how_is_that_known(
    ask: Ask, names: list[str], databases: list[Path]
) -> None:
    best = ask("advice", profile=names[1])["advice"][0]
    one = ask("advice", profile=names[1], name=best["advice"], max_bytes=100_000)
    proof = dict(zip(one["proof"]["columns"], one["proof"]["rows"][0], strict=True))
    assert proof[one["proof_column"]] == pytest.approx(one["proof_value"])
    assert scalar(databases[1], one["proof_query"]) == pytest.approx(one["proof_value"])
    assert {"kind", "name", "time_ns"} <= set(one["evidence"][0])


def test_which_op_takes_most_gpu_time(ask: Ask, names: list[str], databases: list[Path]) -> None:
    found = ask("ops", profile=names[0], limit=1, columns=["op_id", "gpu_time_ns"])
    sql = "SELECT gpu_time FROM view_op_nodes WHERE aggr_id = ? ORDER BY gpu_time DESC LIMIT 1"
    aggregation = int(re.search(r"aggregation=(\d+)", found["link"])[1])  # type: ignore[index]
    assert found["rows"][0][1] == scalar(databases[0], sql, aggregation)


def test_kernels_that_could_use_tensor_cores_are_listed(ask: Ask, names: list[str]) -> None:
    filters = {"tc_eligible": "1", "using_tc": "0"}
    found = ask("ops", profile=names[1], filters=filters, columns=["op_type"], limit=1_000)
    assert found["count"] > 50
    assert "conv2d" in {row[0] for row in found["rows"]}
    kernels = ask("kernels", profile=names[1], filters={"uses_tc": "1"}, limit=1)
    assert kernels["count"] == 0


def test_which_step_was_longest_and_what_ran_in_it(ask: Ask, names: list[str]) -> None:
    columns = ["iteration_index", "start_time_ns", "stop_time_ns"]
    steps = ask("iterations", profile=names[0], ordering="-duration_ns", columns=columns, limit=2)
    number, start, stop = steps["rows"][-1]
    found = ask("timeline_range", profile=names[0], iteration=number)
    assert (found["start_ns"], found["stop_ns"]) == (start, stop)
    assert found["num_events"] > 100
    assert {one["category"] for one in found["categories"]} >= {"compute", "copy"}


def test_comparison_names_the_op_that_regressed(ask: Ask, names: list[str]) -> None:
    found = ask("compare", base=names[0], new=names[1])
    difference = {row["class"]: row["difference_ns"] for row in found["classes"]}
    assert difference["tensor core compute"] < 0 < difference["other compute"]
    first = dict(zip(found["columns"], found["rows"][0], strict=True))
    assert abs(first["difference_ns"]) == max(abs(row[5]) for row in found["rows"])
    assert f"{found['base']['iterations']}" in "".join(str(found["base"].values()))


def test_what_if_predicts_the_step_with_faster_convolutions(ask: Ask, names: list[str]) -> None:
    found = ask("what_if", profile=names[1], changes={"speedup": "conv2d=2x"})
    assert 0 < found["saved_pct"] < 50
    # The CPU as profiled hides a part of it, so there is a range in place of an interval.
    assert found["uncertain_ns"] > 0
    assert found["interval_ns"] is None


def test_what_does_a_step_wait_for(ask: Ask, names: list[str]) -> None:
    found = ask("critical_path", profile=names[1])
    times = [one["ns"] for one in found["critical_path"]]
    assert times == sorted(times, reverse=True)
    assert "kernel" in {one["kind"] for one in found["critical_path"]}
    assert found["measured_step_ns"] > found["ops"][0]["path_ns"] > 0


def test_which_rank_is_slow(ask: Ask, names: list[str]) -> None:
    found = ask("ranks", profile=names[2])
    assert found["count"] == 2
    assert {"verdict", "slow_rank", "slowdown"} <= set(found["comparison"])


def test_how_many_launches_does_a_kernel_take(
    ask: Ask, names: list[str], databases: list[Path]
) -> None:
    listed = ask("describe", profile=names[0])
    assert "view_kernel_launches" in listed["sql_views"]
    assert (
        "kernel_duration"
        in ask("describe", profile=names[0], name="view_kernel_launches")["columns"]
    )
    query = "SELECT count(*) AS launches FROM view_kernel_launches"
    found = ask("sql", profile=names[0], query=query)
    assert found["rows"] == [[scalar(databases[0], query)]]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("DELETE FROM dldb_meta", "not authorized"),
        ("PRAGMA query_only = OFF", "not authorized"),
        ("ATTACH '/etc/passwd' AS other", "not authorized"),
        ("SELECT load_extension('x')", "not authorized"),
        ("SELECT 1; DROP TABLE dldb_meta", "one statement"),
        ("SELECT randomblob(3)", "not authorized"),
        ("", "returns no rows"),
        ("SELECT * FROM absent", "no such table"),
    ],
)
def test_sql_that_is_no_select_is_refused(
    profiles: Profiles, names: list[str], query: str, reason: str
) -> None:
    server = make_server(profiles)

    async def call() -> Any:
        async with client_of(server) as client:
            return await client.call_tool("sql", {"query": query, "profile": names[0]})

    result = run(call())
    assert result.is_error
    assert reason in result.content[0].text
    assert "Traceback" not in result.content[0].text


def test_a_select_without_end_ends_by_its_rows(ask: Ask, names: list[str]) -> None:
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    found = ask("sql", profile=names[0], query=query, limit=10_000_000)
    assert found["has_more"] is True
    assert len(found["rows"]) + found["left_out"]["rows"] == 1_000


def test_a_query_that_computes_for_long_is_stopped(
    profiles: Profiles, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profiler_cli.assistants.profiles.TIME_LIMIT_S", 0.2)
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"

    async def call() -> Any:
        async with client_of(make_server(profiles)) as client:
            return await client.call_tool("sql", {"query": query, "profile": names[0]})

    assert "took longer than" in run(call()).content[0].text


def test_every_tool_only_reads_and_its_description_is_short(profiles: Profiles) -> None:
    async def listed() -> Any:
        async with client_of(make_server(profiles)) as client:
            return (await client.list_tools()).tools

    found = run(listed())
    assert len(found) >= 13
    assert all(tool.annotations.read_only_hint for tool in found)
    page = (Path(__file__).parents[2] / "docs/exports.md").read_text(encoding="utf-8")
    assert all(f"`{tool.name}`" in page for tool in found)
    assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in found) < 16_000


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("summary", {}, "Several profiles are open"),
        ("summary", {"profile": "none"}, "There is no profile 'none'"),
        ("summary", {"aggregation": 99}, "There is no aggregation 99"),
        ("ops", {"filters": {"nothing": "1"}}, "no parameter or filter"),
        ("ops", {"ordering": "nothing"}, "cannot be sorted"),
        ("ops", {"columns": ["nothing"]}, "no column 'nothing'"),
        ("table", {"table": "nothing"}, "There is no table"),
        ("describe", {"name": "nothing"}, "no table or view"),
        ("advice", {"name": "nothing"}, "no advice 'nothing'"),
        ("timeline_range", {"iteration": 10**6}, "no iteration"),
        ("what_if", {"changes": {"nothing": "1"}}, "nothing"),
    ],
)
def test_a_mistake_is_one_sentence(
    profiles: Profiles, names: list[str], tool: str, arguments: dict[str, Any], reason: str
) -> None:
    wanted = arguments if reason.startswith("Several") else {"profile": names[0], **arguments}

    async def call() -> Any:
        async with client_of(make_server(profiles)) as client:
            return await client.call_tool(tool, wanted)

    result = run(call())
    assert result.is_error
    assert reason in result.content[0].text


def test_the_command_answers_on_standard_input_and_output(databases: list[Path]) -> None:
    from mcp import StdioServerParameters

    words = ["-m", "profiler_cli.dlprof", "mcp", str(databases[0])]

    async def call() -> Any:
        async with client_of(StdioServerParameters(command=sys.executable, args=words)) as client:
            return await client.call_tool("summary", {})

    assert "verdict" in json.loads(run(call()).content[0].text)


TOKEN = "a-secret-of-24-characters"


@contextmanager
def _server(database: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    # No port that the system may give to another process before the server takes it.
    port = free_port()
    words = [sys.executable, "-m", "profiler_cli.dlprof", "mcp", f"--port={port}", str(database)]
    with subprocess.Popen(words, env={"DLPROF_TOKEN": TOKEN}, stderr=subprocess.PIPE) as server:
        try:
            yield server, port
        finally:
            server.kill()
            server.communicate()


def test_over_http_only_the_token_is_answered(databases: list[Path]) -> None:
    with _server(databases[0]) as (_, port):
        url = f"http://127.0.0.1:{port}/mcp"
        found = [_status(url, token, port) for token in (None, "wrong", TOKEN)]
        assert found == [401, 401, 200]
        assert _status(url, TOKEN, port, host="attacker.example") == 421
        wrong = {_status(url, "wrong", port) for _ in range(30)}
        assert wrong == {401, 429}
        assert _status(url, TOKEN, port) == 200


def test_a_short_token_is_refused(databases: list[Path]) -> None:
    words = [sys.executable, "-m", "profiler_cli.dlprof", "mcp", "--port=1", str(databases[0])]
    done = subprocess.run(words, env={"DLPROF_TOKEN": "x"}, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"at least 16" in done.stderr


_SLOW_QUERY = (
    "WITH s AS MATERIALIZED (SELECT printf('%.1000000c', 'a') AS a,"
    " printf('%.500000c', 'a') || 'b' AS b) SELECT instr(a, b) + instr(a, b || 'c')"
    " + instr(a, b || 'd') + instr(a, b || 'e') + instr(a, b || 'f') FROM s"
)
SLOW = {"name": "sql", "arguments": {"query": _SLOW_QUERY}}
"""A call that SQLite takes minutes for, without a look at the clock."""


def _wait_for_query(server: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The processes that run SQL, once one computes."""
    deadline = time.monotonic() + WAIT_LIMIT_S
    while True:
        assert time.monotonic() < deadline
        children = psutil.Process(server.pid).children()
        if any(child.cpu_times().user > 1 for child in children):
            return children
        time.sleep(0.05)


def test_a_query_that_cannot_be_interrupted_does_not_keep_the_server(
    databases: list[Path],
) -> None:
    with _server(databases[0]) as (server, port):
        url = f"http://127.0.0.1:{port}/mcp"
        assert _status(url, TOKEN, port) == 200
        thread = threading.Thread(target=_call, args=(url, port, SLOW), daemon=True)
        thread.start()
        _wait_for_query(server)
        server.terminate()
        server.wait(25)  # the query itself has 30 s, and would take minutes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_server_on_standard_input_and_its_query(
    databases: list[Path], number: signal.Signals
) -> None:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    words = [sys.executable, "-m", "profiler_cli.dlprof", "mcp", str(databases[0])]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "test", "version": "1"}
    with subprocess.Popen(words, **pipes) as server:
        assert server.stdin is not None
        for request in (
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": SLOW},
        ):
            server.stdin.write(json.dumps({"jsonrpc": "2.0"} | request).encode() + b"\n")
            server.stdin.flush()
        children = _wait_for_query(server)
        server.send_signal(number)
        assert server.wait(WAIT_LIMIT_S) == 128 + number
    assert not psutil.wait_procs(children, timeout=WAIT_LIMIT_S)[1]


def _call(url: str, port: int, params: dict[str, Any]) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Host": f"127.0.0.1:{port}",
        "Authorization": f"Bearer {TOKEN}",
    }
    with suppress(OSError, HTTPException):
        urlopen(Request(url, json.dumps(body).encode(), headers)).close()


def _status(url: str, token: str | None, port: int, host: str = "") -> int:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Host": host or f"127.0.0.1:{port}",
    }
    if token:
        headers["Authorization"] = f"Bearer {token}"
    deadline = time.monotonic() + WAIT_LIMIT_S
    while True:
        try:
            with urlopen(Request(url, json.dumps(body).encode(), headers)) as reply:
                return int(reply.status)
        except HTTPError as error:
            return error.code
        except URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
