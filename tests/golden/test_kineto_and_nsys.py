"""One training captured by Nsight Systems with our markers and by torch.profiler.

``tests/gpu/programs/steps.py`` ran twice on an H200 with the same seeds and batches: six steps
under nsys, of which the trace holds the last four. ``flop_counter.json`` is what
``torch.utils.flop_counter`` counted for one step.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress
from tests.builders import query

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures" / "kineto"
MODELS = ("resnet50", "bert")
OF_NSYS, OF_KINETO = (3, 4, 5), (1, 2, 3)
"""Iterations of the same steps; the last of the run is followed by other things."""
STEPS = len(OF_KINETO)
SUM_TOLERANCE = 0.01
"""Of a step; runs of one tool differ by up to 0.4 %, the tools by no more."""
OP_TOLERANCE = 0.05
"""Of one op type, where it takes more than a hundredth of the step."""

MODULES = ("BertModel_0", "bert")
"""The same module by its class, as in a trace, and by its attribute, as in the markers."""
Rows = Callable[[str, str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """A function from a capture's name and a query to the rows of its database."""
    databases: dict[str, Path] = {}

    def read(name: str, sql: str) -> list[tuple[Any, ...]]:
        if name not in databases:
            folder = tmp_path_factory.mktemp("pair")
            source, databases[name] = folder / name, folder / "dlprof_dldb.sqlite"
            source.write_bytes(lzma.decompress((CAPTURES / f"{name}.xz").read_bytes()))
            first, *_, last = OF_KINETO if name.endswith(".json") else OF_NSYS
            request = AggregationRequest(iter_start=first, iter_stop=last)
            if name.startswith("operators"):
                request = AggregationRequest()
            options = ImportOptions(source=source, database=databases[name], request=request)
            import_profile(options, NullProgress())
        return query(databases[name], sql)

    return read


def _trace(model: str) -> list[dict[str, Any]]:
    text = lzma.decompress((CAPTURES / f"{model}.json.xz").read_bytes())
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return events


def _launches(rows: Rows, name: str, iterations: tuple[int, ...]) -> list[list[tuple[Any, ...]]]:
    """Launches of some iterations: op type, direction, kernel, duration, op."""
    found = defaultdict(list)
    query = """SELECT iter_value, op_node_type, direction, kernel_name, kernel_duration,
        op_node_id FROM view_kernel_launches ORDER BY api_start, row_id"""
    for iteration, *launch in rows(name, query):
        found[iteration].append(tuple(launch))
    return [found[number] for number in iterations]


@pytest.mark.parametrize("model", MODELS)
def test_the_iterations_are_the_same(rows: Rows, model: str) -> None:
    ((traced,),) = rows(
        f"{model}.json", "SELECT value FROM view_profile_info WHERE key = 'key_node'"
    )
    # Several ranges begin a step; the capture may be cut at another one of the same steps.
    query = "SELECT DISTINCT instances FROM view_key_node_candidates"
    (same,) = rows(f"{model}.sqlite", f"{query} WHERE candidate_name = '{traced}'")
    assert same in rows(f"{model}.sqlite", f"{query} WHERE is_chosen")
    query = "SELECT count(*) FROM view_iterations_all WHERE kind = 'iteration'"
    assert rows(f"{model}.json", query) == [(4,)]


@pytest.mark.parametrize("model", MODELS)
def test_the_same_ops_launch_the_same_kernels(rows: Rows, model: str) -> None:
    traced = _launches(rows, f"{model}.json", OF_KINETO)
    captured = _launches(rows, f"{model}.sqlite", OF_NSYS)
    names: dict[str, str] = {}
    for ours, theirs in zip(traced, captured, strict=True):
        assert len(ours) > 400
        # In the order of their launches, but for the two threads that launch at once.
        assert Counter(one[:3] for one in ours) == Counter(one[:3] for one in theirs)
        for direction in ("fprop", "bprop"):
            pairs = zip(
                (one for one in ours if one[1] == direction),
                (one for one in theirs if one[1] == direction),
                strict=True,
            )
            for one, other in pairs:
                assert one[:3] == other[:3]
                # One op there is one op here, in every step.
                assert names.setdefault(one[4], other[4]) == other[4]
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("model", MODELS)
def test_the_same_ops_run_as_often(rows: Rows, model: str) -> None:
    """Also those that launch nothing."""
    query = """SELECT op_node_type, direction, count(*), sum(num_calls) FROM view_op_metrics
        WHERE direction != '' GROUP BY 1, 2 ORDER BY 1, 2"""
    ours, theirs = (
        {row[:2]: row[2:] for row in rows(f"{model}.{end}", query) if row[0] not in MODULES}
        for end in ("json", "sqlite")
    )
    assert ours == theirs


@pytest.mark.parametrize("model", MODELS)
def test_kernel_times_are_within_the_tools_difference(rows: Rows, model: str) -> None:
    traced = _launches(rows, f"{model}.json", OF_KINETO)
    captured = _launches(rows, f"{model}.sqlite", OF_NSYS)
    ours, theirs = Counter[Any](), Counter[Any]()
    for step, other in zip(traced, captured, strict=True):
        total, expected = (sum(one[3] for one in part) for part in (step, other))
        assert total == pytest.approx(expected, rel=SUM_TOLERANCE)
        for sums, part in ((ours, step), (theirs, other)):
            for kind, direction, _, duration, _ in part:
                sums[kind, direction] += duration
    large = [key for key, value in theirs.items() if value > 0.01 * theirs.total()]
    assert len(large) >= 8
    for key in large:
        assert ours[key] == pytest.approx(theirs[key], rel=OP_TOLERANCE), key


@pytest.mark.parametrize("model", MODELS)
def test_operations_are_those_of_torch(rows: Rows, model: str) -> None:
    counted = json.loads((CAPTURES / "flop_counter.json").read_text())[model]
    query = "SELECT matrix_flops, known_pct FROM view_model_efficiency"
    ((flops, known_pct),) = rows(f"{model}.json", query)
    assert flops == STEPS * sum(counted.values())
    assert known_pct >= 99
    # Bytes too, where lists of tensors were left out of the trace.
    query = """SELECT op_node_type, sum(bytes) / sum(num_calls) FROM view_op_efficiency
        WHERE op_node_type LIKE '%foreach%' GROUP BY 1 ORDER BY 1"""
    assert rows(f"{model}.json", query) == rows(f"{model}.sqlite", query)


@pytest.mark.parametrize("model", MODELS)
def test_backward_links_are_those_of_the_trace(rows: Rows, model: str) -> None:
    """PyTorch draws an arrow from each forward op to its backward node: an independent oracle."""
    events = _trace(model)
    arrows: dict[int, dict[str, Any]] = defaultdict(dict)
    for event in events:
        if event.get("cat") == "fwdbwd":
            arrows[event["id"]][event["ph"]] = event
    pairs = [pair for pair in arrows.values() if set(pair) == {"s", "f"}]
    assert len(pairs) > 100
    ops: dict[int, list[Any]] = defaultdict(list)
    for event in sorted(events, key=lambda op: (op.get("ts", 0), -op.get("dur", 0))):
        if event.get("cat") == "cpu_op" and event["name"].startswith("aten::"):
            kept = ops[event["tid"]]
            if not kept or event["ts"] >= kept[-1]["ts"] + kept[-1]["dur"]:
                kept.append(event)
    steps = sorted(
        e["ts"]
        for e in events
        if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")
    )
    linked = {}
    for pair in pairs:
        time = pair["s"]["ts"]
        for op in ops[pair["s"]["tid"]] if time < steps[STEPS] else []:
            if op["ts"] <= time < op["ts"] + op["dur"]:
                linked[op["ts"]] = op["name"].removeprefix("aten::")
    query = """SELECT op_node_type, sum(num_calls) FROM view_op_metrics
        WHERE direction = 'bprop' AND op_node_type != 'backward' GROUP BY 1"""
    assert dict(rows(f"{model}.json", query)) == Counter(linked.values())


def test_calls_without_gradients_have_their_operations(rows: Rows) -> None:
    """The output follows from the inputs of a call; nothing else holds it without a gradient."""
    counted = json.loads((CAPTURES / "flop_counter.json").read_text())["operators"]
    expected = Counter[str]()
    for name, flops in counted.items():
        # An RNN's kernels are no op of torch's.
        if name != "lstm":
            # The counter knows no mask: of 64 x 64 pairs a causal one leaves 64 x 65 / 2.
            expected[name] += 2 * flops * 65 // 128 if name == "sdpa_causal" else 2 * flops
    query = """SELECT op_node_name, matrix_flops, known_gpu_time, gpu_time_sum
        FROM view_op_efficiency WHERE op_node_name LIKE '/case %'"""
    found = Counter[str]()
    for name, flops, known, gpu_time in rows("operators.json", query):
        case = name.split("/")[1].removeprefix("case ")
        found[case] += flops or 0
        assert known == gpu_time, name
    assert {name: found[name] for name in expected} == dict(expected)
