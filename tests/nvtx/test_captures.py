"""Real captures with our markers, made on H200 GPUs by the programs of ``tests/gpu/programs``."""

from __future__ import annotations

import lzma
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import pytest

from aggregator.dldb.import_writer import ImportResult
from aggregator.options import ImportOptions, Mode
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures"
Imported = tuple[ImportResult, sqlite3.Connection]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked exports of the captures that were imported, and their databases."""
    return tmp_path_factory.mktemp("captures")


@pytest.fixture(scope="module")
def imported(folder: Path) -> Iterator[Callable[[str], Imported]]:
    """A function from a capture's name to its import, made once; no test may write to it."""
    with ExitStack() as opened:

        @cache
        def read(name: str) -> Imported:
            source, database = folder / f"{name}.sqlite", folder / f"{name}.dldb.sqlite"
            source.write_bytes(lzma.decompress((CAPTURES / f"{name}.sqlite.xz").read_bytes()))
            result = import_profile(ImportOptions(source=source, database=database), NullProgress())
            return result, opened.enter_context(closing(sqlite3.connect(database)))

        yield read


def layers(connection: sqlite3.Connection, op_type: str) -> dict[tuple[str, str], str]:
    """Data type by name and direction of all ops of a type."""
    rows = connection.execute(
        "SELECT op_node_name, direction, data_type FROM view_op_metrics WHERE op_node_type = ?",
        (op_type,),
    )
    return {(name, direction): data_type for name, direction, data_type in rows}


MARKED = [
    *("ddp", "fsdp", "checkpoint", "checkpoint_reentrant", "two_backwards", "out_of_memory"),
    "compile",
]


@pytest.mark.parametrize("name", MARKED)
def test_every_kernel_is_in_a_named_op_and_iterations_are_found(
    imported: Callable[[str], Imported], name: str
) -> None:
    result, connection = imported(name)
    total, stray = connection.execute(
        "SELECT sum(kernel_calls), sum((op_node_name LIKE 'unassociated%') * kernel_calls) "
        "FROM view_op_metrics"
    ).fetchone()
    assert total > 100
    assert stray <= 0.005 * total
    assert result.mode == "pytorch"
    assert len(result.iteration_stops_ns) >= 3
    assert "DataLoader" in result.key_node


def test_two_ranks_of_resnet50_have_every_layer_with_its_backward(
    imported: Callable[[str], Imported],
) -> None:
    _, connection = imported("ddp")
    convolutions, linear = layers(connection, "conv2d"), layers(connection, "linear")
    assert len(convolutions) == 2 * 2 * 53
    assert len(linear) == 2 * 2 * 1
    assert set(convolutions.values()) == set(linear.values()) == {"float16"}
    for rank in (0, 1):
        path = f"/rank_{rank}/DistributedDataParallel.forward/ResNet"
        for direction in ("fprop", "bprop"):
            assert (f"{path}/layer3/5/conv3/conv2d", direction) in convolutions
            assert (f"{path}/layer4/0/downsample/0/conv2d", direction) in convolutions
            assert (f"{path}/fc/linear", direction) in linear


def test_shapes_of_the_first_steps_hold_for_all(imported: Callable[[str], Imported]) -> None:
    _, connection = imported("ddp")
    rows = connection.execute(
        "SELECT iter_value, input_shapes FROM view_kernel_launches "
        "WHERE op_node_name LIKE '/rank_0/%/fc/linear' AND direction = 'fprop'"
    ).fetchall()
    assert len({shapes for _, shapes in rows}) == 1
    assert rows[0][1].startswith("<N:")
    assert len({iteration for iteration, _ in rows}) >= 5


@pytest.mark.parametrize(
    ("name", "backward_of"),
    [("checkpoint", "/Net/blocks.{}"), ("checkpoint_reentrant", "/recompute/Net/blocks.{}")],
)
def test_what_a_checkpoint_computes_again_is_separate_and_linked(
    imported: Callable[[str], Imported], name: str, backward_of: str
) -> None:
    _, connection = imported(name)
    found = layers(connection, "linear")
    for block in range(3):
        for layer in ("up", "down"):
            assert (f"/recompute/Net/blocks.{block}/{layer}/linear", "recompute") in found
            assert (f"{backward_of.format(block)}/{layer}/linear", "bprop") in found
    assert len([key for key in found if key[1] == "bprop"]) == 8
    alone = connection.execute(
        "SELECT sum(kernel_calls) FROM view_op_metrics WHERE op_node_type = 'backward'"
    ).fetchone()
    assert alone == (0,)


def test_two_backward_passes_over_one_graph_are_two_calls(
    imported: Callable[[str], Imported],
) -> None:
    _, connection = imported("two_backwards")
    calls = dict(
        connection.execute(
            "SELECT direction, num_calls FROM view_op_metrics "
            "WHERE op_node_name = '/Net/head/linear'"
        ).fetchall()
    )
    assert calls == {"fprop": 4, "bprop": 8}


def test_both_ranks_of_a_sharded_model_are_linked(imported: Callable[[str], Imported]) -> None:
    _, connection = imported("fsdp")
    found = layers(connection, "linear")
    assert len([key for key in found if key[1] == "fprop"]) == 16
    assert len([key for key in found if key[1] == "bprop"]) == 16


def test_without_markers_the_mode_is_simple(imported: Callable[[str], Imported]) -> None:
    result, _ = imported("no_markers")
    assert result.mode == "simple"


def kernels_of_the_engine(export: Path) -> int:
    """Kernels launched from the threads that PyTorch names as its autograd engine's, by SQL."""
    with closing(sqlite3.connect(export)) as connection:
        (count,) = connection.execute(
            """
            SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
            JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = k.correlationId
            JOIN ThreadNames AS t ON t.globalTid = r.globalTid
            JOIN StringIds AS s ON s.id = t.nameId WHERE s.value LIKE 'pt_autograd%'
            """
        ).fetchone()
    return int(count)


def test_without_emit_nvtx_the_backward_pass_is_one_op(
    imported: Callable[[str], Imported], folder: Path
) -> None:
    _, connection = imported("no_emit_nvtx")
    kernels = kernels_of_the_engine(folder / "no_emit_nvtx.sqlite")
    assert kernels == 180
    rows = connection.execute(
        "SELECT op_node_name, direction, num_calls, kernel_calls FROM view_op_metrics "
        "WHERE aggr_id = 1 AND op_node_type = 'backward'"
    ).fetchall()
    assert rows == [("/backward", "bprop", 4, kernels)]
    found = layers(connection, "linear")
    assert len(found) == 8
    assert set(found.values()) == {"float32"}
    assert found["/Net/blocks.1/up/linear", "fprop"]
    warnings = dict(connection.execute("SELECT code, count FROM view_warnings"))
    assert warnings["NO_BACKWARD_RANGES"] == 180


def test_a_capture_without_any_range_has_the_combined_backward_in_pytorch_mode(
    imported: Callable[[str], Imported], folder: Path
) -> None:
    imported("no_markers")
    source, database = folder / "no_markers.sqlite", folder / "pytorch.sqlite"
    options = ImportOptions(source=source, database=database, mode=Mode.PYTORCH)
    import_profile(options, NullProgress())
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT op_node_name, num_calls, kernel_calls FROM view_op_metrics "
            "WHERE aggr_id = 1 AND op_node_type = 'backward'"
        ).fetchall()
    assert rows == [("/backward", 4, kernels_of_the_engine(source))]


def test_a_compiled_graph_lies_in_its_module_and_its_backward_in_the_graph(
    imported: Callable[[str], Imported],
) -> None:
    _, connection = imported("compile")
    names = [
        name
        for (name,) in connection.execute(
            "SELECT op_node_name FROM view_op_metrics WHERE op_node_name LIKE '%Compiled%'"
        )
    ]
    assert names
    assert all(name.startswith("/Net/Torch-Compiled Region") for name in names)
    assert any(name.endswith("/backward/CompiledFunctionBackward") for name in names)


@pytest.mark.parametrize("name", ["no_emit_nvtx", "compile"])
def test_real_run_has_memory_versions_and_settings(
    imported: Callable[[str], Imported], name: str
) -> None:
    _, connection = imported(name)
    (memory,) = connection.execute(
        "SELECT total, used, used_before, source, reason FROM view_gpu_memories"
    ).fetchall()
    total, used, before, source, reason = memory
    assert (source, reason) == ("nvml", "")
    assert 0 < before < used < total
    assert total == 150109880320
    config = connection.execute(
        "SELECT framework, cuda_version, cudnn_version FROM view_system_config"
    ).fetchone()
    assert config == ("PyTorch 2.11.0+cu130", "13.0", "9.19.0")
    settings = dict(connection.execute("SELECT key, value FROM view_model_settings"))
    assert settings["emit_nvtx"] == ("false" if name == "no_emit_nvtx" else "true")
    assert settings["torch_compile"] == ("true" if name == "compile" else "false")
    assert settings["optimizer"] == '"Adam"'


@pytest.mark.parametrize("name", ["checkpoint", "checkpoint_reentrant", "two_backwards"])
def test_every_nanosecond_of_the_autograd_thread_counts_once(
    imported: Callable[[str], Imported], folder: Path, name: str
) -> None:
    """CPU time of the ops of that thread against the lengths of its outermost ranges."""
    _, connection = imported(name)
    counted = connection.execute(
        """
        SELECT t.tid, sum(i.cpu_time) FROM op_instances AS i
        JOIN ops AS o ON o.id = i.op JOIN threads AS t ON t.id = i.thread
        WHERE o.op_name NOT LIKE 'unassociated%' GROUP BY t.tid
        """
    ).fetchall()
    with closing(sqlite3.connect(folder / f"{name}.sqlite")) as export:
        ((thread,),) = export.execute(
            "SELECT DISTINCT globalTid FROM NVTX_EVENTS WHERE text LIKE 'autograd::engine::%'"
        ).fetchall()
        ranges = export.execute(
            "SELECT start, end FROM NVTX_EVENTS WHERE globalTid = ? AND eventType = 59 "
            "ORDER BY start, end DESC",
            (thread,),
        ).fetchall()
    expected, last = 0, 0
    for start, end in ranges:
        if end > last:
            expected, last = expected + end - start, end
    assert dict(counted)[thread & 0xFFFFFF] == expected


def test_steps_before_and_inside_a_cuda_graph_are_calls_of_the_same_ops(
    imported: Callable[[str], Imported],
) -> None:
    """Three warm-up steps and the recorded one; only the first three calls wrote shapes."""
    _, connection = imported("cuda_graph")
    rows = connection.execute(
        "SELECT direction, count(*), min(num_calls), max(num_calls) FROM view_op_metrics "
        "WHERE aggr_id = 1 AND op_node_type = 'linear' GROUP BY direction"
    ).fetchall()
    assert sorted(rows) == [("bprop", 8, 4, 4), ("fprop", 8, 4, 4)]
    assert connection.execute("SELECT count(*) FROM view_graph_launches").fetchone() == (4,)


def test_captures_hold_nothing_about_their_machine() -> None:
    machine = re.compile(rb"[A-Z_]{4,}=/|/root/|/home/|vsock|kworker|TOKEN|HOSTNAME")
    packed = [
        *CAPTURES.glob("*.xz"),
        *(CAPTURES.parents[2] / "demo").glob("*.xz"),
    ]
    assert len(packed) >= 10
    for path in packed:
        found = machine.search(lzma.decompress(path.read_bytes()))
        assert found is None, (path.name, found)
