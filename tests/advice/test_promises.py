"""Nothing promises more than a step has: savings in all that users read, against true steps."""

from __future__ import annotations

import json
import lzma
import math
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import aggregator.advice as advisers
from aggregator.advice.finding import Finding, Proof
from aggregator.answers.replay import read_what_if
from aggregator.errors import ReplayError
from aggregator.html_report.content import read_objects
from aggregator.system.replies import to_plain
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from aggregator.tables.declared.advice import ADVICE
from aggregator.texts import say
from profiler_cli.assistants.profiles import Profiles, name_profiles
from profiler_cli.assistants.queries import advise, summarize, what_if
from profiler_cli.commands.advise import _headline
from profiler_cli.dlprof import main
from tests.builders import query
from tests.conftest import ProfileFactory

TRUE_STEPS_MS = {
    "trainer": 381.0,
    "static": 3.28,
    "gpt": 39.5,
    "jax": 22.5,
    "ddp": 62.5,  # 38 ms, and a sleep of 120 ms in every fifth step.
    "pyg_epochs": 19.3,
    "vit_loader": 260.0,
}
"""Capture -> the longest mean step of the script's own clock without profiling. Unit: ms."""
HOST = {"launch_bound", "host_stalls", "synchronizing_calls", "batch_size"}
HOST_CHANGES = ("graph_launch", "no_sync")
UNITS = {"s": 1e9, "ms": 1e6, "µs": 1e3, "us": 1e3}
_SAVING = re.compile(
    r"\bsav(?:e|es|ed|ing)\b(?: up to| about| at least| [\d.,]+ to)? ([\d.,]+)\s(ms|s|µs|us)\b"
)


def _promised_ns(text: str) -> Iterator[float]:
    """Times that a text says could be saved."""
    for number, unit in _SAVING.findall(" ".join(text.split())):
        yield float(number.replace(",", "")) * UNITS[unit]


def _savings_of(document: Any) -> Iterator[float]:
    """Savings in a document: numbers by their names, and those in its sentences."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name in ("gain_ns", "saving_ns", "most_ns") and isinstance(value, int | float):
                yield float(value)
            else:
                yield from _savings_of(value)
    elif isinstance(document, list):
        for part in document:
            yield from _savings_of(part)
    elif isinstance(document, str):
        yield from _promised_ns(document)


def _everything(path: Path, aggr: int, capsys: pytest.CaptureFixture[str]) -> Iterator[object]:
    """All that says what could be saved."""
    with opened(path, time_limit_s=60) as database:
        data = AggregationData(database, {"aggr_id": aggr, "domain": "default-domain"})
        yield [dict(row) for row in data.rows(ADVICE)]
        yield read_objects(data)
        for change in HOST_CHANGES:
            with suppress(ReplayError):
                yield {"saving_ns": read_what_if(data, changes={change: "1"}).saving_ns}
    profiles = Profiles(name_profiles([(path, path)]), "")
    with profiles.scope(next(iter(profiles.known)), aggr) as scope:
        yield summarize(scope)
        yield advise(scope, None)
        for change in HOST_CHANGES:
            with suppress(ReplayError):
                yield what_if(scope, {change: "1"})
    for words in ([], ["--json"]):
        main(["advise", f"--database={path}", f"--aggregation={aggr}", *words])
        output = capsys.readouterr().out
        yield json.loads(output) if words else output
    for change in HOST_CHANGES:
        main(["whatif", f"--database={path}", f"--{change}"])
        yield capsys.readouterr().out


REPRESENTATIVE = (
    *("ddp.sqlite", "vit_loader.sqlite", "children.sqlite", "plain_cuda_crashed.sqlite"),
    *("crash_assert.sqlite", "b200__eager_trace.json.gz", "zx3.sqlite", "module.sqlite"),
    *("static.sqlite", "gpt.sqlite"),
)
REST = (
    *("own_profiler_and_child.sqlite", "torchrun1.sqlite", "crash_segfault.sqlite"),
    *("trainer.sqlite", "jax.sqlite", "pyg_epochs.sqlite"),
    *("ddp2_resnet50_amp.sqlite", "jax_cnn_bf16.sqlite", "kineto_resnet50_fp16.pt.trace.json"),
    *("nvtx_domains.sqlite", "pytorch_bert_bf16.sqlite", "pytorch_gpt2_large.sqlite"),
    *("pytorch_resnet50_amp.sqlite", "pytorch_resnet50_fp32.sqlite", "simple_no_nvtx.sqlite"),
    *("w0a.json.gz", "w0b.json.gz", "w4a.json.gz", "w4b.json.gz", "athrun.sqlite"),
    *("ginda_h100_2gpu_1s.sqlite", "liz_ddp53.sqlite", "yyh_net.sqlite"),
    *("mi300__resnet_act_checkpoint.json.gz", "negative_queue_length_values_check__rank0.json.gz"),
    *("torch_compile_triton__trace.json.gz", "triton_example__triton_example.json.gz"),
    "amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "critical_path__alexnet__benchmark_result_2869224_1695835535_trace.json.gz",
    "critical_path__simple_add__benchmark_result_493459_1694039959_trace.json.gz",
    "inference__sglang_decode__sglang_Qwen3-8B_decode.json.gz",
    "inference__vllm_decode_full__graph_execution.json.gz",
)
"""All captures of the shared folders but those that hold no work of a GPU or repeat another."""


def _most_ns(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[float, float]:
    """What a step, and what its host, has to save at most; nothing without a step. Unit: ns."""
    capsys.readouterr()
    main(["show", str(path), "--format=json"])
    shown = json.loads(capsys.readouterr().out)
    if shown["step"] is None:
        return 0.0, 0.0
    busy_pct = shown["gpu"]["busy_pct"] or 0.0
    work_ns = busy_pct / 100.0 * shown["step"]["mean_ns"]
    return shown["step"]["ns"], max(shown["step"]["mean_ns"] - work_ns, 0.0)


@pytest.mark.parametrize("name", [*REPRESENTATIVE, *REST])
def test_no_surface_promises_more_than_the_step_has(
    imported: ProfileFactory, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = imported(name)
    aggr = _newest(path)
    step_ns, host_ns = _most_ns(path, capsys)
    true_ns = TRUE_STEPS_MS.get(name.removesuffix(".sqlite"), math.inf) * 1e6
    for document in _everything(path, aggr, capsys):
        for saving_ns in _savings_of(document):
            assert saving_ns <= min(1.001 * step_ns, true_ns), (saving_ns, document)
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT advice_name, gain_ns FROM view_advice WHERE aggr_id = ? AND gain_ns > 0"
        for advice_name, gain_ns in connection.execute(query, (aggr,)):
            assert advice_name not in HOST or gain_ns <= host_ns


def test_waiting_for_most_of_a_step_leads_what_saves_little_of_it(
    imported: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["show", str(imported("pytorch_gpt2_large")), "--format=json"])
    shown = json.loads(capsys.readouterr().out)
    first, *others = shown["findings"]
    assert (first["name"], first["saving_ns"]) == ("launch_bound", None)
    assert any(0 < (finding["saving_pct"] or 0) < 5 for finding in others)
    assert shown["verdict"]["finding"] == "launch_bound"
    assert "idles 85% of the step in short gaps before late launches" in shown["verdict"]["text"]
    said = [finding["text"] for finding in shown["findings"]]
    assert not any("the GPU works" in text for text in said)


def _newest(path: Path) -> int:
    return int(query(path, "SELECT max(aggr_id) FROM view_aggregations")[0][0])


@pytest.mark.parametrize("name", TRUE_STEPS_MS)
def test_without_a_bare_step_gaps_of_the_cpu_promise_nothing(
    imported: ProfileFactory, name: str
) -> None:
    path = imported(name)
    rows = query(
        path,
        "SELECT advice_name, severity, gain_ns, gain_pct, problem, needs, most_ns FROM view_advice"
        " WHERE aggr_id = ? AND status = 'found' ORDER BY place",
        _newest(path),
    )
    of_host = [row for row in rows if row[0] in HOST]
    for _, severity, gain_ns, gain_pct, problem, needs, _ in of_host:
        assert severity != "high"
        assert (gain_ns, gain_pct) == (None, None)
        assert "is unknown" in problem
        assert "--bare_step_ms" in needs
    for place, row in enumerate(rows):
        if row[0] in HOST:
            known = [other for other in rows[place:] if other[2] and other[-1] is None]
            assert all(other[1] != row[1] for other in known)


@pytest.mark.parametrize(
    ("share_pct", "is_per_sample", "expected"),
    [(85.0, False, "medium"), (20.0, False, "medium"), (19.9, False, "low"), (85.0, True, "low")],
)
def test_an_unknown_saving_is_as_severe_as_its_share_allows(
    share_pct: float, is_per_sample: bool, expected: str
) -> None:
    finding = Finding(
        advice="launch_bound",
        gain_pct=share_pct,
        problem=say("GPU 0 waits for launches"),
        recommendation=say("Launch at once"),
        reasoning=say("Gaps"),
        proof=Proof("SELECT 0 AS number", "number", 0),
        is_per_sample=is_per_sample,
    )
    assert advisers._without_promise(finding).level == expected


def test_a_saving_of_which_bounds_are_known_is_a_range() -> None:
    row = {"place": 1, "certainty": "likely", "recommendation": "Use TF32", "gain_source": "replay"}
    row |= {"problem": "FP32 products take 71% of the step", "gain_bound": "at_least"}
    row |= {"severity": "medium", "gain_pct": 0.2, "gain_ns": 104_000, "most_ns": None}
    known = {"most_ns": 9_560_000, "most_pct": 31.8}
    assert _headline(row | known)[0].startswith(
        "1. MEDIUM, could save 0.104 to 9.56 ms (0 to 32%) by replay (likely): FP32 products"
    )
    older = _headline(row | {"most_pct": None})[0]
    assert older.startswith("1. MEDIUM, could save at least 0.104 ms (0%) by replay (likely): FP32")


IDLE_ADVICE = {
    *("input_bound", "launch_bound", "host_stalls", "synchronizing_calls", "slow_iterations"),
    "late_ranks",
}


@pytest.mark.parametrize("name", [*REPRESENTATIVE, *REST])
def test_no_verdict_passes_over_an_idle_gpu(
    imported: ProfileFactory, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = imported(name)
    main(["show", str(path), "--format=json"])
    shown = json.loads(capsys.readouterr().out)
    if shown["step"] is None or (shown["gpu"]["idle_pct"] or 0.0) < 25.0:
        return
    main(["advise", f"--database={path}", "--json"])
    document = json.loads(capsys.readouterr().out)
    named = {row["advice_name"] for row in document["advice"] + document["unknown"]}
    assert named & {*IDLE_ADVICE, "steps", "idle_time", "gpu_work"}


def test_with_a_given_step_the_host_saves_at_most_what_the_gpu_idles(
    imported: ProfileFactory, tmp_path: Path
) -> None:
    bare_ms = 3.0
    source = imported("static")
    main([f"--database={source}", f"--bare_step_ms={bare_ms}", f"--output_path={tmp_path}"])
    path = tmp_path / "dlprof_dldb.sqlite"
    aggr = _newest(path)
    given = "SELECT given_step FROM view_typical_step WHERE aggr_id = ?"
    assert query(path, given, aggr)[0] == (round(bare_ms * 1e6),)
    gains = query(
        path,
        "SELECT gain_ns, gain_pct FROM view_advice WHERE aggr_id = ? AND advice_name IN"
        " ('launch_bound', 'host_stalls', 'synchronizing_calls')",
        aggr,
    )
    for gain_ns, gain_pct in gains:
        assert gain_ns is not None
        assert gain_ns <= (bare_ms - _work_ms(path)) * 1e6
        assert gain_pct == pytest.approx(100 * gain_ns / (bare_ms * 1e6), abs=0.01)


def _work_ms(path: Path) -> float:
    """What the GPU works in a median step, from its kernels. Unit: ms."""
    sql = (
        "SELECT sum(kernel_duration) FROM view_kernel_launches WHERE aggr_id = 2"
        " GROUP BY iter_value"
    )
    return median(row[0] for row in query(path, sql)) / 1e6


def test_what_if_changes_of_the_gpu_keep_their_saving(
    imported: ProfileFactory,
) -> None:
    path = imported("pytorch_resnet50_fp32")
    with opened(path, time_limit_s=60) as database:
        data = AggregationData(database, {"aggr_id": _newest(path), "domain": "default-domain"})
        found = to_plain(read_what_if(data, changes={"half_precision": "1"}))
    assert found["saving_ns"] == found["measured_step_ns"] - found["predicted_step_ns"] > 0


def test_a_change_of_the_cpu_promises_no_time_of_the_cpu(imported: ProfileFactory) -> None:
    path = imported("pytorch_bert_bf16")
    with opened(path, time_limit_s=60) as database:
        data = AggregationData(database, {"aggr_id": _newest(path), "domain": "default-domain"})
        found = to_plain(read_what_if(data, changes={"graph_launch": "1"}))
    assert found["predicted_step_ns"] < found["measured_step_ns"]
    assert found["saving_ns"] < 0.02 * found["measured_step_ns"]  # Gaps between kernels.


@pytest.mark.parametrize(
    ("name", "advice", "change"),
    [
        ("pytorch_resnet50_amp", "layout_conversions", "channels_last"),
        ("vit_loader", "input_bound", "data_ready"),
        ("module", "input_bound", "data_ready"),
        ("pytorch_resnet50_fp32", "half_precision", "half_precision"),
        ("pytorch_resnet50_fp32", "tf32_off", "tensor_cores"),
        ("simple_no_nvtx", "half_precision", "half_precision"),
    ],
)
def test_advice_and_what_if_say_one_saving(
    imported: ProfileFactory, name: str, advice: str, change: str
) -> None:
    _assert_one_saving(imported(name), advice, change)


def test_advice_and_what_if_say_one_saving_without_profiling(tmp_path: Path) -> None:
    """The example holds steps without profiling: it is known what the GPU works in one."""
    export = tmp_path / "slow.sqlite"
    packed = Path(__file__).parents[2] / "examples" / "captures" / "slow.sqlite.xz"
    export.write_bytes(lzma.decompress(packed.read_bytes()))
    assert main([f"--database={export}", f"--output_path={tmp_path}"]) == 0
    for advice, change in (
        ("half_precision", "half_precision"),
        ("synchronizing_calls", "no_sync"),
    ):
        _assert_one_saving(tmp_path / "dlprof_dldb.sqlite", advice, change)


def _assert_one_saving(path: Path, advice: str, change: str) -> None:
    with opened(path, time_limit_s=60) as database:
        data = AggregationData(database, {"aggr_id": _newest(path), "domain": "default-domain"})
        row = next(row for row in data.rows(ADVICE) if row["advice"] == advice)
        found = read_what_if(data, changes={change: "1"})
    # Shares that are stored with the ops are rounded, so nanoseconds may differ.
    assert found.saving_ns
    assert row["gain_ns"] == pytest.approx(found.saving_ns, rel=1e-4)
    share = 100 * found.saving_ns / found.measured_step_ns
    assert row["gain_pct"] == pytest.approx(share, abs=0.01)
    if row["most_ns"] is not None:
        assert found.uncertain_ns is not None
        most_ns = found.saving_ns + found.uncertain_ns
        assert row["most_ns"] == pytest.approx(most_ns, rel=1e-4)


def test_work_that_the_profiled_cpu_outlasts_saves_at_least_what_a_replay_shows(
    imported: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    path = imported("pytorch_resnet50_fp32")
    main(["advise", f"--database={path}", "--json"])
    found = {row["advice_name"]: row for row in json.loads(capsys.readouterr().out)["advice"]}
    assert found["half_precision"]["gain_bound"] == "at_least"
    assert found["half_precision"]["most_pct"] == pytest.approx(60.0, abs=0.1)
    assert found["half_precision"]["severity"] == "medium"  # 60% are possible, 4% are known.
    assert found["unfused_optimizer"]["severity"] == "low"  # The rest is time of the CPU.
    assert found["synchronizing_calls"]["gain_bound"] == ""
    for command in ("advise", "show"):
        main([command, str(path)])
        assert "1.53 to 26.1 ms" in capsys.readouterr().out


@pytest.mark.parametrize("value", ["0", "-3", "nan", "inf", "1e30", "fast"])
def test_a_bare_step_that_is_no_time_is_refused(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--database=x.sqlite", f"--bare_step_ms={value}"]) == 2
    assert "--bare_step_ms" in capsys.readouterr().err
