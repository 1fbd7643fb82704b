"""Our own advice on real captures: what it says of each, and that each claim can be proved."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median

import pytest

import aggregator.advice
from aggregator.advice import ADVISERS, unaligned_shapes
from aggregator.advice.finding import HIGH_GAIN_PCT, MEDIUM_GAIN_PCT, MOST_CERTAIN, View
from profiler_cli.dlprof import main
from tests.builders import query, table
from tests.conftest import ProfileFactory

Connect = Callable[..., sqlite3.Connection]

#: Capture -> advice in order, open questions.
CAPTURES = {name: (found, asked) for name, found, asked in table("advice_of_captures")}
PROFILES = {name: (found, asked) for name, found, asked in table("advice_of_profiles")}

#: Advice -> a capture where it is given, and one, of the same training done better, where not.
PAIRS = {
    "input_bound": ("loader_slow", "loader_fast"),
    "launch_bound": ("eager", "graphed"),
    "slow_iterations": ("slow_step", "mlp_bf16"),
    "synchronizing_calls": ("item", "item_not"),
    "pageable_copies": ("copy_pageable", "copy_pinned"),
    "unoverlapped_copies": ("copy_pinned", "copy_stream"),
    "exposed_communication": ("ddp_after", "ddp_even"),
    "imbalanced_gpus": ("ddp_uneven", "ddp_even"),
    "half_precision": ("mlp_tf32", "mlp_bf16"),
    "tf32_off": ("mlp_fp32", "mlp_tf32"),
    "tensor_core_fallback": ("mlp_island", "mlp_bf16"),
    "unaligned_shapes": ("mlp_unaligned", "mlp_bf16"),
    "layout_conversions": ("conv_fp16", "conv_fp16_channels_last"),
    "unfused_optimizer": ("adam_loop", "adam_fused"),
    "tiny_kernels": ("graphed_nodes", "mlp_bf16"),
    "batch_size": ("batch_small", "batch_large"),
    "debugging_aids": ("anomaly", "eager"),
    "cudnn_benchmark": ("conv_fp32", "conv_fp16"),
    "unused_gpus": ("one_of_two", "graphed_nodes"),
    "memory_growth": ("memory_kept", "memory_released"),
    "memory_peak": ("memory_exhausted", "memory_released"),
    "memory_fragmentation": ("memory_fragmented", "memory_expandable"),
}

#: Advice that no small capture has.
ELSEWHERE = {
    *("checkpointing", "host_stalls", "late_ranks", "norm_copies", "parameter_loop"),
    *("separate_experts", "vocabulary_size"),
}

#: Advice -> step time in ms before and after, without a profiler, and how far the prediction may
#: lie from what was won, in percent of the step.
WON = {
    "half_precision": ("mlp_tf32", 25.123, 14.245, 10),
    "tf32_off": ("mlp_fp32", 133.271, 25.123, 12),
    "launch_bound": ("eager", 3.392, 0.404, 10),
    "input_bound": ("loader_slow", 158.111, 11.851, 15),
    "tensor_core_fallback": ("mlp_island", 43.872, 14.245, 10),
    "unaligned_shapes": ("mlp_unaligned", 50.953, 14.245, 22),
    "imbalanced_gpus": ("ddp_uneven", 27.606, 19.973, 5),
    "pageable_copies": ("copy_pageable", 32.029, 14.387, 20),
    "unoverlapped_copies": ("copy_pinned", 14.387, 12.772, 6),
}

#: Advice -> a capture, one of the same training with the change, and how far the prediction may lie
#: from what was won between the two, in percent of the recorded step.
WON_AS_RECORDED = {
    "unfused_optimizer": ("adam_loop", "adam_fused", 6),
    "synchronizing_calls": ("item", "item_not", 4),
    "unoverlapped_copies": ("copy_pinned", "copy_stream", 3),
}


def advice(connection: sqlite3.Connection, status: str) -> list[str]:
    query = "SELECT advice_name FROM view_advice WHERE aggr_id = 1 AND status = ? ORDER BY place"
    return [row[0] for row in connection.execute(query, (status,))]


def unproved(connection: sqlite3.Connection) -> list[tuple[str, object, object]]:
    """Advice whose query does not say what the advice rests on."""
    query = (
        "SELECT advice_name, proof_query, proof_column, proof_value FROM view_advice"
        " WHERE status = 'found'"
    )
    wrong: list[tuple[str, object, object]] = []
    for name, proof, column, value in connection.execute(query).fetchall():
        cursor = connection.execute(proof)
        rows = cursor.fetchall()
        result = {column[0]: rows[0][index] for index, column in enumerate(cursor.description)}
        if len(rows) != 1 or result != {column: value} or not value:
            wrong.append((name, result, value))
    return wrong


@pytest.mark.parametrize("name", CAPTURES)
def test_each_capture_gets_its_advice_and_no_other(capture: Connect, name: str) -> None:
    connection = capture(name)
    assert (advice(connection, "found"), advice(connection, "unknown")) == CAPTURES[name]
    assert unproved(connection) == []


@pytest.mark.parametrize("name", PROFILES)
def test_each_profile_gets_its_advice_and_no_other(imported: ProfileFactory, name: str) -> None:
    with closing(sqlite3.connect(f"file:{imported(name)}?mode=ro", uri=True)) as connection:
        assert (advice(connection, "found"), advice(connection, "unknown")) == PROFILES[name]
        assert unproved(connection) == []


def test_every_adviser_is_listed_documented_and_tested() -> None:
    listed = {adviser.NAME for adviser in ADVISERS}
    folder = Path(aggregator.advice.__file__).parent
    files = {
        path.stem for path in folder.glob("*.py") if "\ndef advise(" in path.read_text("utf-8")
    }
    assert files == listed | {"__init__"}
    rows = (folder.parents[1] / "docs/advice.md").read_text("utf-8").split("## The advisers")[1]
    documented = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", rows.split("\n## ")[0], re.MULTILINE))
    assert documented == {name: str(MOST_CERTAIN[name]) for name in listed}
    # jax_cnn_bf16 and the tests of invented facts and public captures hold the others.
    assert set(PAIRS) | ELSEWHERE == listed


@pytest.mark.parametrize("name", PAIRS)
def test_each_advice_is_given_on_one_capture_and_not_on_another(
    capture: Connect, name: str
) -> None:
    there, absent = PAIRS[name]
    assert name in advice(capture(there), "found")
    assert name not in advice(capture(absent), "found")


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("input_bound", "--data-ready"),
        ("launch_bound", "--graph-launch"),
        ("synchronizing_calls", "--no-sync"),
        ("exposed_communication", "--overlap-communication"),
        ("half_precision", "--half-precision"),
        ("tf32_off", "--tensor-cores"),
        ("layout_conversions", "--channels-last"),
        ("pageable_copies", None),
    ],
)
def test_advice_names_the_what_if_that_predicts_its_gain(
    capture: Connect, capsys: pytest.CaptureFixture[str], name: str, option: str | None
) -> None:
    connection = capture(PAIRS[name][0])
    query = "SELECT recommendation FROM view_advice WHERE aggr_id = 1 AND advice_name = ?"
    (text,) = connection.execute(query, (name,)).fetchone()
    named = re.search(r"dlprof whatif DB (\S+) predicts", text)
    assert (named[1] if named else None) == option
    if option is not None:
        path = connection.execute("PRAGMA database_list").fetchone()[2]
        assert main(["whatif", path, option, "--format=json"]) == 0
        assert json.loads(capsys.readouterr().out)["confidence"] == "high"


@pytest.mark.parametrize("name", WON)
def test_the_predicted_gain_is_near_the_measured_gain(capture: Connect, name: str) -> None:
    source, before, after, tolerance = WON[name]
    query = "SELECT gain_pct FROM view_advice WHERE aggr_id = 1 AND advice_name = ?"
    bare_ms = before if name == "launch_bound" else 0.0  # Nothing is promised without.
    predicted = capture(source, bare_ms=bare_ms).execute(query, (name,)).fetchone()[0]
    assert predicted == pytest.approx(100 * (1 - after / before), abs=tolerance)


@pytest.mark.parametrize("name", WON_AS_RECORDED)
def test_the_replayed_gain_is_that_of_the_recorded_steps(capture: Connect, name: str) -> None:
    before, after, tolerance = WON_AS_RECORDED[name]
    query = "SELECT gain_pct, gain_source FROM view_advice WHERE aggr_id = 1 AND advice_name = ?"
    # A replay gives what the mean one of its steps saves, as a share.
    steps = [_step_ns(capture(side), "step_mean") for side in (before, after)]
    as_recorded = capture(before, bare_ms=_step_ns(capture(before), "typical_step") / 1e6)
    # What saves less than 1% is left out.
    predicted, source = as_recorded.execute(query, (name,)).fetchone() or (0.0, "replay")
    assert source == "replay"
    assert predicted == pytest.approx(100 * (1 - steps[1] / steps[0]), abs=tolerance)


def _step_ns(connection: sqlite3.Connection, column: str) -> float:
    """A column of the typical step."""
    query = f"SELECT {column} FROM view_typical_step WHERE aggr_id = 1"
    return float(connection.execute(query).fetchone()[0])


def test_the_source_of_a_gain_is_named(capture: Connect) -> None:
    query = "SELECT advice_name, gain_pct, gain_source FROM view_advice WHERE status = 'found'"
    for name in CAPTURES:
        for advice_name, gain, source in capture(name).execute(query):
            estimated = {"slow_iterations", "imbalanced_gpus", "batch_size"}
            expected = "estimate" if advice_name in estimated else "replay"
            assert source == ("" if gain is None else expected)


def test_a_larger_batch_wins_time_per_sample(capture: Connect) -> None:
    query = "SELECT gain_pct FROM view_advice WHERE aggr_id = 1 AND advice_name = 'batch_size'"
    predicted = capture("batch_small", bare_ms=8.797).execute(query).fetchone()[0]
    assert predicted == pytest.approx(100 * (1 - (7.504 / 8) / (8.797 / 2)), abs=5)


def test_the_largest_gain_comes_first_and_decides_the_severity(capture: Connect) -> None:
    ranks = {"high": 0, "medium": 1, "low": 2}
    for name in CAPTURES:
        query = (
            "SELECT severity, gain_pct, gain_bound FROM view_advice WHERE aggr_id = 1 AND"
            " status = 'found' AND advice_name <> 'batch_size' ORDER BY place"
        )
        rows = capture(name).execute(query).fetchall()
        levels = [ranks[level] for level, _, _ in rows]
        assert levels == sorted(levels)
        for level, gain, bound in rows:
            if gain is None:
                continue
            assert 0 <= gain <= 100
            expected = (
                "high" if gain >= HIGH_GAIN_PCT else "medium" if gain >= MEDIUM_GAIN_PCT else "low"
            )
            if bound == "at_least":
                assert ranks[level] <= ranks[expected]
            else:
                assert level == expected


def test_evidence_names_ops_of_the_profile_and_links_to_known_views(capture: Connect) -> None:
    connection = capture("mlp_island")
    ops = {row[0] for row in connection.execute("SELECT op_node_id FROM view_op_nodes")}
    row = connection.execute("SELECT evidence, drill_down FROM view_advice").fetchone()
    items, drill_down = json.loads(row[0]), json.loads(row[1])
    assert all(item["link"] for item in items if item["kind"] == "op")
    links = [item["link"] for item in items if item["link"]] + [drill_down]
    assert {link["view"] for link in links} <= {view.value for view in View}
    for link in links:
        named = [*link["params"].get("op", "").split(","), *drill_down["params"].values()]
        assert all(one in ops for text in named for one in text.split(",") if one)
    assert items[0]["kind"] == "op"
    assert "Mlp/blocks/3" in items[0]["name"]


def test_evidence_per_step_is_that_of_the_table(capture: Connect) -> None:
    connection = capture("conv_fp16")
    query = (
        "SELECT evidence FROM view_advice WHERE advice_name = 'layout_conversions' AND aggr_id = 1"
    )
    items = json.loads(connection.execute(query).fetchone()[0])
    kernels = [item for item in items if item["kind"] == "kernel"]
    assert kernels
    for item in kernels:
        query = (
            "SELECT count(*), sum(kernel_duration) FROM view_kernel_launches"
            " WHERE kernel_name = ? AND aggr_id = 1 GROUP BY iter_value"
        )
        counts, times = zip(*connection.execute(query, (item["name"],)), strict=True)
        assert item["count"] / item["steps"] == pytest.approx(median(counts), rel=0.02)
        assert item["time_ns"] / item["steps"] == pytest.approx(median(times), rel=0.05)


def test_advice_names_what_else_its_saving_holds_and_counts_rare_waits_as_such(
    imported: ProfileFactory,
) -> None:
    sql = "SELECT problem FROM view_advice WHERE advice_name = ?"
    for name, advice_name, said in (
        ("pytorch_resnet50_amp", "layout_conversions", "batch normalization"),
        ("pytorch_resnet50_fp32", "synchronizing_calls", "1x in 6 steps"),
    ):
        problem = query(imported(name), sql, advice_name)[0][0]
        assert said in problem


@pytest.mark.parametrize(
    ("shapes", "op_type", "expected"),
    [
        ("[128, 1024, 14, 14];[256, 1024, 1, 1]", "conv2d", True),
        ("[128, 1020, 14, 14];[256, 1020, 1, 1]", "conv2d", False),
        ("[128, 1024, 14, 14];[250, 1024, 1, 1]", "conv2d", False),
        ("[128, 1024, 14, 14];[1024, 4, 3, 3]", "conv2d", False),  # Groups of four channels.
        ("[128, 1024];[256, 1024]", "linear", False),
        ("", "conv2d", False),
    ],
)
def test_only_convolutions_of_aligned_channels_have_nothing_to_pad(
    shapes: str, op_type: str, *, expected: bool
) -> None:
    assert unaligned_shapes._has_aligned_channels(shapes, op_type) is expected


def test_evidence_of_layouts_holds_the_batch_normalization_that_its_problem_names(
    imported: ProfileFactory,
) -> None:
    sql = "SELECT evidence, drill_down FROM view_advice WHERE advice_name = 'layout_conversions'"
    ops = (
        "SELECT DISTINCT op_node_id FROM view_kernel_launches WHERE kernel_name = ?"
        " AND aggr_id = 1 AND op_node_id <> ''"
    )
    path = imported("pytorch_resnet50_amp")
    items, link = map(json.loads, query(path, sql)[0])
    norms = [item["name"] for item in items if item["name"].startswith("bn_")]
    assert norms
    linked = set(link["params"]["ops.f.op_id__in"].split(","))
    assert linked & {op for (op,) in query(path, ops, norms[0])}


def test_evidence_of_waits_names_the_ops_that_wait(capture: Connect) -> None:
    """Every op named calls what waits for the GPU: the raw calls say which do."""
    connection = capture("item")
    row = connection.execute(
        "SELECT evidence FROM advice WHERE advice = 'synchronizing_calls'"
    ).fetchone()
    named = {item["link"]["params"]["op"] for item in json.loads(row[0]) if item["kind"] == "op"}
    waiting = connection.execute(
        "SELECT DISTINCT o.op_id FROM api_calls AS c JOIN api_names AS n ON n.id = c.name"
        " JOIN ops AS o ON o.id = c.op WHERE n.name LIKE '%Synchronize%'"
    )
    assert named
    assert named <= {op for (op,) in waiting}


def test_the_advice_is_the_same_after_aggregating_the_same_range_again(
    database_of: Callable[..., Path], tmp_path: Path
) -> None:
    import shutil

    from aggregator.options import AggregationRequest
    from aggregator.pipeline import aggregate
    from aggregator.system.progress import NullProgress

    copy = tmp_path / "copy.sqlite"
    shutil.copyfile(database_of("conv_fp32"), copy)
    again = aggregate(copy, AggregationRequest("", 0, 6), NullProgress())
    query = (
        "SELECT place, advice_name, gain_pct, problem, evidence, proof_value FROM view_advice"
        " WHERE aggr_id = ? ORDER BY place"
    )
    with closing(sqlite3.connect(copy)) as connection:
        first, second = (
            connection.execute(query, (aggr,)).fetchall() for aggr in (1, again.aggr_id)
        )
        assert first == second
        assert unproved(connection) == []


def test_start_up_is_no_reason_for_advice(capture: Connect) -> None:
    """DLProf called this short run underutilized: its GPU is busy all through the loop."""
    connection = capture("mlp_bf16")
    query = "SELECT problem FROM view_expert_systems WHERE exp_sys_id LIKE 'underutilized%'"
    assert "Only 1.2%" in connection.execute(query).fetchone()[0]
    assert connection.execute("SELECT count(*) FROM view_advice").fetchone()[0] == 0
