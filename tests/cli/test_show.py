"""``dlprof show``: the first screen, whose numbers are those of every other surface."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from aggregator.html_report.content import read_objects
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from profiler_cli.assistants.profiles import Profiles, name_profiles
from profiler_cli.assistants.queries import summarize
from profiler_cli.commands.show import _steps
from profiler_cli.dlprof import main
from tests.builders import Trace, unpacked
from tests.conftest import ProfileFactory
from tests.golden.test_steps import CASES

WHOLE = {"type": "integer"}
NS = {"type": ["integer", "null"]}
PCT = {"type": ["number", "null"]}
TEXT = {"type": "string"}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list_of(**properties: Any) -> dict[str, Any]:
    return {"type": "array", "items": _object(**properties)}


STEP = _object(
    ns={"type": "integer"},
    basis={"enum": ["bare", "given", "profiled"]},
    statistic={"enum": ["median", "mean"]},
    median_ns=WHOLE,
    mean_ns=WHOLE,
    p10_ns=WHOLE,
    p90_ns=WHOLE,
    profiled_ns=WHOLE,
    bare_ns=NS,
    corrected_ns=NS,
    steps=WHOLE,
    iterations=WHOLE,
    first=WHOLE,
    last=WHOLE,
    bare_reason={"type": ["string", "null"]},
)
PARTS = _list_of(name=TEXT, ns=NS, pct=PCT, is_busy={"type": "boolean"})
DOCUMENT = _object(
    step={"anyOf": [STEP, {"type": "null"}]},
    loop=_object(
        key_node=TEXT,
        iterations={"type": "integer"},
        steps={"type": "integer"},
        confidence={"enum": ["high", "medium", "low", "none"]},
        reason=TEXT,
    ),
    between_steps=_list_of(kind=TEXT, ns={"type": "integer"}, count={"type": "integer"}),
    gpu=_object(busy_pct=PCT, idle_pct=PCT, recorded_span_ns=NS, parts=PARTS),
    names=_object(named_pct=PCT, module_pct=PCT, unassociated_pct=PCT),
    verdict=_object(text=TEXT, finding={"type": ["string", "null"]}),
    findings=_list_of(
        name=TEXT,
        text=TEXT,
        saving_ns=NS,
        saving_pct=PCT,
        saving_most_ns=NS,
        saving_most_pct={"type": ["number", "null"]},
        saving_bound={"enum": ["at_most", "at_least", None]},
        certainty=TEXT,
        source=TEXT,
    ),
    limits=_list_of(code=TEXT, text=TEXT, figures={"type": "array"}),
    bounds={
        "type": "object",
        "additionalProperties": {"enum": ["at_least", "at_most", "unknown"]},
    },
    top_ops=_list_of(
        name=TEXT,
        module=TEXT,
        direction=TEXT,
        gpu_ns_per_step={"type": "integer"},
        share_pct=PCT,
    ),
    trials={"type": "array"},
)


def _shown(path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["show", str(path), *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "name", ["ddp", "gpt", "plain_cuda_crashed", "crash_assert", "children", "simple_no_nvtx"]
)
def test_the_document_has_the_fields_that_programs_rely_on(
    imported: ProfileFactory, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(_shown(imported(name), capsys, "--format=json"))
    jsonschema.validate(found, DOCUMENT)
    gpu = found["gpu"]
    if name == "crash_assert":  # Nothing of a GPU was recorded.
        assert gpu == {
            "busy_pct": None,
            "idle_pct": None,
            "recorded_span_ns": None,
            "parts": [],
        }
        assert "holds no work of a GPU" in found["verdict"]["text"]
    else:
        assert gpu["busy_pct"] + gpu["idle_pct"] == pytest.approx(100)
        assert sum(part["pct"] for part in gpu["parts"]) == pytest.approx(100, abs=0.01)
    if found["findings"]:
        assert found["verdict"]["finding"] in {None, found["findings"][0]["name"]}


@pytest.mark.parametrize("name", ["ddp", "pytorch_bert_bf16", "jax"])
def test_every_surface_shows_the_same_numbers(
    imported: ProfileFactory, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = imported(name)
    found = json.loads(_shown(path, capsys, "--format=json"))
    with closing(sqlite3.connect(path)) as connection:
        aggr = int(connection.execute("SELECT max(aggr_id) FROM view_aggregations").fetchone()[0])
    with opened(path, time_limit_s=60) as database:
        objects = read_objects(
            AggregationData(database, {"aggr_id": aggr, "domain": "default-domain"})
        )
    with Profiles(name_profiles([(path, path)]), "").scope(None, aggr) as scope:
        answer = summarize(scope)
    step = found["step"]
    assert answer["step"] == step | {"reason": answer["step"]["reason"]}
    assert objects["performance-summary"]["step_ns"] == step["profiled_ns"] == step["ns"]
    sentences = {found["verdict"]["text"], objects["verdict"]["sentence"]}
    assert sentences == {answer["verdict"]["sentence"]}
    savings = [(one["name"], one["saving_ns"]) for one in found["findings"]]
    assert [(one["advice"], one["gain_ns"]) for one in answer["advice"]] == savings[:5]
    console = path.with_name(f"{path.name.removesuffix('.dldb.sqlite')}.out").read_text()
    (printed,) = re.findall(rf"^Step: {step['statistic']} ([\d.]+) ms", console, re.MULTILINE)
    assert float(printed) == pytest.approx(step["ns"] / 1e6, abs=0.005)
    assert answer["gpu"] == found["gpu"]
    usage = objects["resource-usage"]
    assert (usage["busy_pct"], usage["idle_pct"]) == (
        found["gpu"]["busy_pct"],
        found["gpu"]["idle_pct"],
    )
    assert f"GPU busy {usage['busy_pct']:.1f} %, idle {usage['idle_pct']:.1f} %" in console


def test_the_text_says_verdict_step_parts_findings_and_ops(
    imported: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = _shown(imported("ddp"), capsys).splitlines()
    assert lines[0].startswith("Rank 1 enters a collective 122 ms late in every 5th step")
    text = "\n".join(lines)
    assert "as profiled (mean): every 5th step takes" in text
    assert "GPU busy at least 6" in text
    assert re.search(r"^Step: at most [.\d]+ ms as profiled", text, re.MULTILINE)
    assert "\nStep without profiling: unknown. The capture holds no steps" in text
    assert re.search(r"^1\. 2\d[.\d]* ms of a step \(2\d %\): Rank 1", text, re.MULTILINE)
    assert "Top ops by GPU time, per step" in text
    assert max(map(len, lines)) <= 103


def test_markdown_is_made_of_tables(
    imported: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _shown(imported("ddp"), capsys, "--format=markdown")
    assert text.startswith("**Rank 1 enters")
    assert "| part | share | per step |" in text


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_without_steps_no_figure_is_called_that_of_a_step(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = Trace()
    trace.gpu()
    main = trace.thread()
    main.op("conv2d", 100, 900, seq=1)
    main.launch("conv", 110, gpu=(200, 800))
    shown = _shown(trace.write(tmp_path / "once.sqlite"), capsys, f"--format={form}")
    figures = "\n".join(line for line in shown.splitlines() if "No steps" not in line)
    assert "GPU busy" in figures
    assert "conv2d" in figures
    assert not re.search(r"(?:per|of the) step", figures)


def test_ranks_are_joined_before_they_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = [CASES / f"late_rank_of_five_noisy_steps.rank{rank}.json.xz" for rank in range(2)]
    sources = [unpacked(one, tmp_path) for one in packed]
    found = json.loads(_shown(Path(",".join(map(str, sources))), capsys, "--format=json"))
    assert found["verdict"]["finding"] == "late_ranks"
    assert found["step"]["ns"] == pytest.approx(98e6, rel=0.01)


def test_a_given_step_is_the_step(
    imported: ProfileFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([f"--database={imported('gpt')}", "--bare_step_ms=38.38", f"--output_path={tmp_path}"])
    found = json.loads(_shown(tmp_path / "dlprof_dldb.sqlite", capsys, "--format=json"))
    assert (found["step"]["ns"], found["step"]["basis"]) == (38_380_000, "given")
    assert found["step"]["profiled_ns"] == pytest.approx(39_380_000, rel=0.01)


def test_a_file_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "/nowhere/dlprof_dldb.sqlite"]) in (2, 5)
    assert "Traceback" not in capsys.readouterr().err


def test_the_commands_of_an_op_profile_its_kernels(
    imported: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    database = imported("ddp")
    with closing(sqlite3.connect(database)) as connection:
        sql = (
            "SELECT op_node_id FROM view_op_nodes WHERE aggr_id = 1 ORDER BY gpu_time DESC LIMIT 1"
        )
        [(op_id,)] = connection.execute(sql).fetchall()
    found = json.loads(_shown(database, capsys, f"--ncu={op_id}", "--format=json"))
    lines = _shown(database, capsys, f"--ncu={op_id}").splitlines()
    commands = [line for line in lines if not line.startswith("#")]
    assert commands == [command["command"] for command in found["commands"]]
    assert commands
    assert all(command.startswith("ncu ") for command in commands)


def test_ops_are_named_by_path_and_equal_names_by_direction(
    imported: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    path = imported("pytorch_resnet50_amp")
    text = _shown(path, capsys)
    ops = [line.split("%  ")[1] for line in text.partition("Top ops")[2].splitlines()[1:6]]
    assert len(set(ops)) == len(ops)
    assert all(op.startswith(("/", "...")) for op in ops)
    findings = text.partition("\n1. ")[2].partition("\n\n")[0].splitlines()[1:]
    assert all(line.startswith(("   ", "2. ", "3. ")) for line in findings)
    capsys.readouterr()
    assert main(["whatif", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "BATCH_NORM" not in shown
    assert "/batch_norm bprop" in shown
    assert "own time" in shown


def test_fewer_steps_than_iterations_come_with_the_reason() -> None:
    assert _steps({"steps": 38, "iterations": 38}) == "38 steps"
    text = _steps({"steps": 37, "iterations": 38})
    assert text.startswith("37 whole steps in 38 iterations: one that begins after a pause, or")
