"""Records with extreme values: one is left out and counted, never the whole file."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.errors import DlprofError
from aggregator.sources import open_profile
from aggregator.system.progress import NullProgress
from tests.builders import Analyzed, Trace, analyze, analyze_file

FOLDER = Path(__file__).resolve().parents[1] / "data/extreme"
OPS = "SELECT op_node_name, sum(num_calls) FROM view_op_nodes GROUP BY 1 ORDER BY 1"


def _kernels(profile: Analyzed) -> int:
    ((count,),) = profile.query("SELECT count(*) FROM kernels")
    return int(count)


def _imported(name: str, folder: Path) -> Analyzed:
    return analyze_file(FOLDER / name, folder / "dlprof_dldb.sqlite")


def test_a_duration_of_an_overflow_leaves_out_one_kernel(tmp_path: Path) -> None:
    found = _imported("one_time_out_of_range.json", tmp_path)
    assert _kernels(found) == 17
    assert found.warnings()["BROKEN_EVENTS"] == 1


def test_half_a_character_in_a_name_is_shown_as_the_replacement(tmp_path: Path) -> None:
    found = _imported("lone_surrogate_in_a_name.json", tmp_path)
    assert _kernels(found) == 18
    assert "my::op\N{REPLACEMENT CHARACTER}" in json.dumps(found.query(OPS), ensure_ascii=False)
    assert "BROKEN_EVENTS" not in found.warnings()


def test_begins_and_ends_are_read_as_complete_events(tmp_path: Path) -> None:
    source = json.loads((FOLDER / "begin_and_end_events.json").read_text())
    begun: list[Any] = []
    complete = []
    for event in source["traceEvents"]:
        if event["ph"] == "B":
            begun.append(event)
        elif event["ph"] == "E":
            begin = begun.pop()
            complete.append(begin | {"ph": "X", "dur": event["ts"] - begin["ts"]})
        else:
            complete.append(event)
    (tmp_path / "complete.json").write_text(json.dumps({"traceEvents": complete}))
    (tmp_path / "expected").mkdir()

    found = _imported("begin_and_end_events.json", tmp_path)
    expected = analyze_file(tmp_path / "complete.json", tmp_path / "expected/dldb.sqlite")

    assert _kernels(found) == 18
    assert found.query(OPS) == expected.query(OPS)
    assert len(found.query(OPS)) >= 3
    assert "BROKEN_EVENTS" not in found.warnings()


def _training() -> Trace:
    """Steps with copies, ops and kernels, as an export of Nsight Systems has them."""
    trace = Trace()
    for thread, step, at in trace.steps(8):
        thread.copy(at + 20, gpu=(at + 30, at + 90))
        thread.op("relu", at + 1_000, at + 1_400, seq=2 * step + 1, sizes="[[8, 3, 4, 4]]")
        thread.launch("vectorized_elementwise_kernel", at + 1_010, gpu=(at + 1_100, at + 1_900))
    return trace


@pytest.mark.parametrize("kind", ["KERNEL", "MEMCPY"])
def test_the_smallest_integer_is_no_time(kind: str, tmp_path: Path) -> None:
    trace = _training()
    trace.tables[f"CUPTI_ACTIVITY_KIND_{kind}"][4]["start"] = -(2**63)
    found = analyze(trace, tmp_path)
    assert found.warnings()["IMPOSSIBLE_TIMES"] == 1


# --- any value in one event of a trace ------------------------------------------------------------

_FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
_ARGS = ("device", "stream", "correlation", "grid", "block", "External id", "bytes",
         "Sequence number", "Input Dims", "Input type", "Call stack", "Comms Id")  # fmt: skip
_EXTREME = st.sampled_from(
    [
        *("0", "-1", "1e400", "-1e400", "1e999999999", "NaN", "-Infinity", "null", "true", "[]"),
        *("{}", '""', '"NaN"', '"1e400"', '"\\udcff"', '"\\ud800\\udc00"', '"\\\\udcff"'),
        *(str(sign * (1 << bits) + more) for sign in (1, -1) for bits in (31, 53, 61, 62, 63, 64)
          for more in (-1, 0, 1)),
        *("9" * 400, f'"{"9" * 400}"', f'"{"x" * 70_000}"', "[1e400]", "[" * 50 + "]" * 50),
        *("18446744073709551.615", "9223372036854775.807", "-9223372036854775.808", "1e-400"),
    ]
)  # fmt: skip


@given(
    st.sampled_from(["kernel", "cuda_runtime", "cpu_op", "user_annotation"]),
    st.sampled_from([*_FIELDS, *_ARGS]),
    _EXTREME,
    st.sampled_from(["one_time_out_of_range.json", "begin_and_end_events.json"]),
)
def test_one_extreme_value_costs_one_event(kind: str, key: str, value: str, name: str) -> None:
    text = json.loads((FOLDER / name).read_text())
    event = next(one for one in text["traceEvents"] if one.get("cat") == kind)
    (event if key in _FIELDS else event["args"])[key] = "@@"
    changed = json.dumps(text).replace('"@@"', value)
    with TemporaryDirectory() as folder:
        source = Path(folder) / "trace.json"
        source.write_text(changed)
        profile = open_profile(source, NullProgress())
    # The other file has one broken kernel to begin with.
    assert len(profile.kernels) >= 16
    assert len(profile.api_calls) >= 17


_TIMES = st.sampled_from(
    [
        sign * (1 << bits) + more
        for sign in (1, -1)
        for bits in (0, 31, 53, 56, 57, 60, 61, 62)
        for more in (-1, 0, 1)
    ]
    + [2**63 - 1, -(2**63)]
)


@given(st.sampled_from(["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME",
                        "NVTX_EVENTS"]), st.sampled_from(["start", "end"]), _TIMES)  # fmt: skip
def test_one_extreme_time_of_an_export_costs_no_other_record(
    table: str, column: str, value: int
) -> None:
    with TemporaryDirectory() as folder:
        trace = _training()
        trace.tables["CUPTI_ACTIVITY_KIND_MEMCPY"][4]["start"] = -(2**63)
        rows = trace.tables[table]
        rows[-1][column] = value
        try:
            found = analyze(trace, Path(folder))
        except DlprofError as error:
            raise AssertionError(f"{table}.{column} = {value}: {error.message}") from error
        if table == "CUPTI_ACTIVITY_KIND_KERNEL":
            assert _kernels(found) == len(rows)
