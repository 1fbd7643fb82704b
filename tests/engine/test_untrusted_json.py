"""Texts of unknown content: read as far as possible, and never an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aggregator.advice.unaligned_shapes import is_unaligned
from aggregator.costs.formulas.call import MAX_COUNT, OpCall, sizes_of
from aggregator.costs.formulas.registry import count
from aggregator.sources.formats import parse_version
from aggregator.system.untrusted_json import (
    MAX_DEPTH,
    read_count,
    read_json,
    read_list,
    read_literal,
    read_object,
)
from tests.builders import analyze, one_gpu

DEEP = 10_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, "b", null, true]}', {"a": [1, 2.5, "b", None, True]}),
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH + " ", "deep"),
        ("[" * DEEP + "]" * DEEP, None),
        ("[" * DEEP, None),
        ('{"a": ' * DEEP + "1" + "}" * DEEP, None),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("9" * 5_000, None),
        ("[1e999, NaN, -Infinity, 1e3]", [None, None, None, 1000.0]),
        (r'"half \ud800 of a character, whole \ud83d\ude00"', "half � of a character, whole 😀"),
        ("", None),
        ("nonsense", None),
    ],
)
def test_json_is_read_or_refused(text: str, value: Any) -> None:
    found = read_json(text)
    assert found is not None if value == "deep" else found == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': (1, 2), 'b': None, 3: -1.5}", {"a": [1, 2], "b": None, "3": -1.5}),
        ("[{1, 2}, b'x', 1j, ..., 1e999, 0x" + "f" * 5_000 + "]", [None] * 6),
        ("'half \\ud800'", "half �"),
        ("(" * DEEP, None),
        ("-" * DEEP + "1", None),
        ("__import__('os')", None),
        ("{[]: 1}", None),
    ],
)
def test_literals_are_read_or_refused(text: str, value: Any) -> None:
    assert read_literal(text) == value


def test_lists_and_objects_are_read() -> None:
    assert read_list("[1]") == [1]
    assert read_object('{"a": 1}') == {"a": 1}
    assert [read_list(text) for text in ("", "5", "{}", "null", "[")] == [[]] * 5
    assert [read_object(text) for text in ("", "5", "[]", "null", "{")] == [{}] * 5


SIZES = [
    *("5", "null", "{}", "true", "1.5", '"x"', "[[8, null], [4, 4]]", "[[1e999, 3], [3, 3]]"),
    *("[[8, 3, 4, 4], 7, {}]", r'["\ud800", [3, 3]]', "[[9999999999, 9999999999]]"),
    f"[[{'9' * 5_000}, 16], [8, 16]]",
    "[[9223372036854775807, 9223372036854775807], [9223372036854775807, 3]]",
    "[" * DEEP + "]" * DEEP,
    "[[" * DEEP,
]


@pytest.mark.parametrize("op", ["conv2d", "linear", "mm", "nccl:all_reduce"])
def test_sizes_that_are_none_do_not_stop_an_import(op: str, tmp_path: Path) -> None:
    trace, main = one_gpu()
    for step, sizes in enumerate(SIZES * 2):
        at = 10_000 * step
        main.op(op, at, at + 900, seq=step, sizes=sizes)
        kernel = "ncclDevKernel_AllReduce_Sum_f32" if "nccl" in op else "h884gemm_fp16_align1"
        main.launch(kernel, at + 10)
    found = analyze(trace, tmp_path)
    calls = found.query("SELECT sum(kernel_calls) FROM view_op_metrics WHERE aggr_id = 1")
    assert calls == [(2 * len(SIZES),)]
    counts = found.query("SELECT flops, bytes FROM cost_units WHERE flops IS NOT NULL")
    assert all(0 <= flops <= MAX_COUNT for flops, _ in counts)


def _call(op: str, *shapes: str) -> str:
    tensors = ", ".join(f"{{'type': 'tensor', 'shape': {shape}}}" for shape in shapes)
    return f"{{'op': '{op}', 'args': [{tensors}]}}"


@pytest.mark.parametrize(
    "marker",
    [
        _call("conv2d", "({1}, b'x', 1j, ...)"),
        _call("conv2d", r"('\ud800', None, 1, 1)", "(None, 'x', [], {})"),
        _call("linear", "(8, 99999999999999999999)", "(99999999999999999999, 8)"),
        r'{"op": "\ud800", "args": []}',
        "{'op': 'relu', 'args': [" + "[" * 90 + "]" * 90 + "]}",
        r'torch.nn: \ud800 (Linear) {"dtype": "\ud800", "p": [NaN, 1e999]}',
        "torch.nn: fc (Linear) {'p': {1, 2}, 'call_site': '\\udfff'}",
        r'{"model_config": {"optimizer": {"name": "\ud800"}, "cudnn_version": 1e999}}',
        '{"gpu_memory": {"device": 0, "pid": 1, "peak_reserved_bytes": 9223372036854775807}}',
        '{"gpu_memory": {"device": 0, "pid": 1, "peak_reserved_bytes": -5}}',
    ],
)
def test_markers_that_do_not_hold_together_do_not_stop_an_import(
    marker: str, tmp_path: Path
) -> None:
    trace, main = one_gpu()
    for step in range(3):
        at = 10_000 * step
        main.range(marker, at, at + 950)
        main.op("linear", at + 10, at + 900, seq=step)
        main.launch("kernel", at + 20)
    found = analyze(trace, tmp_path)
    assert found.query("SELECT sum(kernel_calls) FROM view_op_metrics") == [(3,)]
    assert found.query("SELECT memory_used_bytes FROM devices") == [(None,)]


def test_impossible_values_are_unknown() -> None:
    sizes = sizes_of("[[1099511627776, 1099511627776], [1099511627776, 1099511627776]]")
    cost = count(OpCall("mm", sizes, 2, 2))
    assert (cost.flops, cost.num_bytes) == (None, None)
    assert count(OpCall("mm", ((4, 8), (8, 2)), 2, 2)).flops == 2 * 4 * 8 * 2


def test_sizes_with_too_many_digits_are_no_sizes() -> None:
    assert not is_unaligned(f"<{'9' * 5_000}, 16>; <8, 16>", "linear")
    assert is_unaligned("<8, 9>; <9, 16>", "linear")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("13000", 13_000),
        ("9" * 18, 10**18 - 1),
        (str((1 << 63) - 1), (1 << 63) - 1),
        (str(1 << 63), None),
        ("9" * 20, None),
        ("9" * 5_000, None),
        ("\u00b2", None),
        ("\u0663", None),
        ("-1", None),
        ("", None),
    ],
)
def test_only_ascii_digits_are_a_number(text: str, number: int | None) -> None:
    assert read_count(text) == number
    parse_version(text)
