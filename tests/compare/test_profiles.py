"""Real captures: owners add up, and comparisons say what an expert would say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.compare.captures import CaptureData, read_capture
from aggregator.compare.document import to_document
from aggregator.compare.engine import compare
from aggregator.compare.result import Comparison, Verdict
from aggregator.compare.text import to_text
from aggregator.dldb.ownership import read_ownership, read_span
from aggregator.metrics.ownership import BUSY_CLASSES, CLASSES
from aggregator.system.sqlite_uri import connect_read_only
from profiler_cli.commands.compare import EXIT_CANNOT_TELL
from profiler_cli.dlprof import main
from tests.conftest import ProfileFactory

OWN = (
    *("pytorch_resnet50_amp", "pytorch_resnet50_fp32", "pytorch_bert_bf16", "ddp2_resnet50_amp"),
    *("jax_cnn_bf16", "nvtx_domains", "simple_no_nvtx", "kineto_resnet50_fp16.pt.trace.json"),
)
PUBLIC = (
    *("w0a.json.gz", "w4b.json.gz", "b200__eager_trace.json.gz"),
    *("mi300__resnet_act_checkpoint.json.gz", "torch_compile_triton__trace.json.gz"),
    *("liz_ddp53.sqlite", "zx3.sqlite"),
)


def _read(path: Path) -> CaptureData:
    with closing(connect_read_only(path)) as connection:
        return read_capture(connection, path.name)


def _compared(base: Sequence[Path], new: Sequence[Path]) -> Comparison:
    found = compare([_read(path) for path in base], [_read(path) for path in new])
    _assert_adds_up(found)
    return found


def _assert_adds_up(found: Comparison) -> None:
    """Exactly, in the object and in the document that is made of it."""
    for parts in (found.rows, found.classes, found.causes):
        assert sum((one.base_ns for one in parts), Fraction()) == found.base.step_ns
        assert sum((one.new_ns for one in parts), Fraction()) == found.new.step_ns
    document = json.loads(json.dumps(to_document(found)))
    for key in ("rows", "classes", "causes"):
        total = sum((Decimal(one["difference_ns"]) for one in document[key]), Decimal())
        assert total == Decimal(document["difference_ns"]), key
    step = Decimal(document["new"]["step_ns"]) - Decimal(document["base"]["step_ns"])
    assert step == Decimal(document["difference_ns"])


@pytest.mark.parametrize("name", [*OWN, *PUBLIC])
def test_owners_add_up_to_the_iterations_of_every_gpu(name: str, imported: ProfileFactory) -> None:
    with closing(connect_read_only(imported(name))) as connection:
        for (aggr,) in connection.execute("SELECT id FROM aggregations").fetchall():
            span = read_span(connection, aggr)
            found = read_ownership(connection, span)
            assert (found.owned_ns >= 0).all()
            total = found.owned_ns.sum(axis=1)
            assert total.tolist() == (found.devices * found.lengths_ns).tolist()


@pytest.mark.parametrize("name", ["pytorch_resnet50_amp", "ddp2_resnet50_amp", "w0a.json.gz"])
def test_busy_time_is_that_of_plain_sql(name: str, imported: ProfileFactory) -> None:
    """The union of all work per GPU, merged by SQL's window functions."""
    with closing(connect_read_only(imported(name))) as connection:
        span = read_span(connection, 1)
        found = read_ownership(connection, span)
        busy = found.owned_ns[:, found.kind < BUSY_CLASSES].sum()
        low, high = int(span.edges_ns[0]), int(span.edges_ns[-1])
        query = """
        WITH w AS (SELECT device, start, start + duration AS stop FROM kernels
                   UNION ALL SELECT device, start, start + duration FROM memory_ops
                   UNION ALL SELECT device, start, start + duration FROM graph_launches),
        c AS (SELECT device, max(start, ?1) AS start, min(stop, ?2) AS stop FROM w
              WHERE stop > ?1 AND start < ?2),
        r AS (SELECT *, max(stop) OVER (PARTITION BY device ORDER BY start, stop
              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached FROM c)
        SELECT sum(max(stop - max(start, coalesce(reached, start)), 0)) FROM r
        """
        assert busy == connection.execute(query, (low, high)).fetchone()[0]


def test_more_loader_workers_are_named_and_no_kernel_is(imported: ProfileFactory) -> None:
    files = {name: imported(f"{name}.json.gz") for name in ("w0a", "w0b", "w4a", "w4b")}
    found = _compared([files["w0a"], files["w0b"]], [files["w4a"], files["w4b"]])
    assert found.judgement.verdict is Verdict.FASTER
    assert found.judgement.interval_ns is not None
    assert found.judgement.interval_ns[1] < 0
    assert found.causes[0].name == "data loader"
    assert "data loader" in found.headline
    assert "compute" not in found.headline
    assert found.rows[0].reason == "data loader"
    assert found.rows[0].judgement.verdict is Verdict.FASTER
    kernels = next(one for one in found.classes if one.name == "other compute")
    assert abs(kernels.difference_ns) < 2_000_000


@pytest.mark.parametrize(
    ("base", "new", "begin"),
    [
        ("w0a", "w0b", "14.8 % faster (177.9 -> 151.5 ms), not confirmed: one capture per side."),
        ("w0b", "w0a", "17.4 % slower (151.5 -> 177.9 ms), not confirmed: one capture per side."),
        ("w4a", "w4b", "Cannot tell whether the step changed"),
    ],
)
def test_one_capture_a_side_of_the_same_program_is_no_regression(
    base: str, new: str, begin: str, imported: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(imported(f"{name}.json.gz")) for name in (base, new)]
    assert main(["compare", *files]) == EXIT_CANNOT_TELL
    assert capsys.readouterr().out.startswith(begin)


def test_work_of_the_gpu_decides_where_each_side_has_one_capture(
    imported: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(imported(f"pytorch_resnet50_{name}")) for name in ("fp32", "amp")]
    assert main(["compare", *files]) == 0
    first, interval = capsys.readouterr().out.splitlines()[:2]
    assert "41.9 % faster. " in first
    assert "not confirmed" not in first
    assert interval.endswith("with one capture per side, changes from run to run are not in it.")


@pytest.mark.parametrize(
    ("base", "new", "causes", "settings"),
    [
        (
            *("pytorch_resnet50_fp32", "pytorch_resnet50_amp", {"other compute", "op on the CPU"}),
            ("matrix products float32 -> float16", "<32, 3, 224, 224> -> <64, 3, 224, 224>"),
        ),
        (
            *("pytorch_resnet50_amp", "ddp2_resnet50_amp", {"other compute", "communication"}),
            ("GPUs used 1 -> 2", "<64, 3, 224, 224> -> <32, 3, 224, 224>"),
        ),
    ],
)
def test_the_first_line_has_what_an_expert_would_name(
    base: str, new: str, causes: set[str], settings: tuple[str, ...], imported: ProfileFactory
) -> None:
    found = _compared([imported(base)], [imported(new)])
    assert all(setting in found.headline for setting in settings)
    assert {one.name for one in found.causes[:2]} == causes
    assert all(cause in found.headline for cause in causes)
    lines = to_text(found).splitlines()
    assert lines[0] == found.headline


def test_wrapped_modules_of_a_distributed_run_keep_their_partners(imported: ProfileFactory) -> None:
    found = _compared([imported("pytorch_resnet50_amp")], [imported("ddp2_resnet50_amp")])
    aligned = [row for row in found.rows if row.op_type == "conv2d"]
    assert {str(row.match) for row in aligned} == {"aligned"}
    assert {one.key: (one.base, one.new) for one in found.setup}["GPUs used"] == ("1", "2")


def test_other_frameworks_are_compared_by_class_and_said_so(imported: ProfileFactory) -> None:
    found = _compared([imported("jax_cnn_bf16")], [imported("pytorch_resnet50_amp")])
    assert any("modes differ" in note for note in found.notes)
    found = _compared([imported("nvtx_domains")], [imported("simple_no_nvtx")])
    assert "no loop was found in" in found.headline


def _part(data: CaptureData, rows: Any) -> CaptureData:
    owned = data.ownership
    lengths = owned.lengths_ns[rows]
    return replace(
        data,
        capture=replace(data.capture, lengths_ns=lengths),
        ownership=replace(owned, owned_ns=owned.owned_ns[rows], lengths_ns=lengths),
    )


@pytest.mark.parametrize("name", ["pytorch_resnet50_amp", "w0b.json.gz"])
def test_random_halves_of_a_run_get_no_verdict(name: str, imported: ProfileFactory) -> None:
    data = _read(imported(name))
    random = np.random.default_rng(5)
    count = len(data.capture.lengths_ns)
    for _ in range(3):
        order = random.permutation(count)
        halves = np.sort(order[: count // 2]), np.sort(order[count // 2 :])
        found = compare(*([_part(data, rows)] for rows in halves), is_one_capture=True)
        _assert_adds_up(found)
        assert found.judgement.verdict in (Verdict.SAME, Verdict.CANNOT_TELL)


def test_every_class_is_in_the_document_in_order(imported: ProfileFactory) -> None:
    found = _compared([imported("simple_no_nvtx")], [imported("pytorch_resnet50_amp")])
    assert [one["class"] for one in to_document(found)["classes"]] == list(CLASSES)
