"""Compiled programs on H200 GPUs beside the same programs run eagerly, with the same seed."""

from __future__ import annotations

import csv
import lzma
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders import analyze_file, query
from tests.golden.compiled_names import compare

CAPTURES = Path(__file__).parents[1] / "data" / "captures" / "compiled"
TOKENS_PER_STEP = 8 * 512
"""What the program counted itself."""
L2_BYTES = 60 * 2**20
"""Of an H200. So much of what a kernel writes may not have reached the memory when it ends."""


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("compiled")
    found = {}
    for packed in CAPTURES.glob("*.sqlite.xz"):
        name = packed.name.removesuffix(".sqlite.xz")
        export = folder / f"{name}.export.sqlite"
        export.write_bytes(lzma.decompress(packed.read_bytes()))
        found[name] = analyze_file(export, folder / f"{name}.sqlite").path
    return found


PAIRS = [("gpt_eager", "gpt_compiled")]


@pytest.mark.parametrize(("eager", "compiled"), PAIRS)
def test_compiled_kernels_are_in_the_modules_of_the_eager_run(
    eager: str, compiled: str, databases: dict[str, Path]
) -> None:
    found = compare(databases[eager], databases[compiled])
    assert found["named_pct"] >= 95
    assert (found.get("wrong", 0), found["in_both_wrong"]) == (0, 0), found["examples"]
    assert found["its ops ran in its modules"] > 0.4 * found["kernels"]
    assert found["in_both_compared"] > 500


def test_a_kernel_in_a_wrong_module_is_found(databases: dict[str, Path], tmp_path: Path) -> None:
    """The comparison itself, on a database in which two modules changed places."""
    swapped = tmp_path / "swapped.sqlite"
    shutil.copyfile(databases["gpt_compiled"], swapped)
    with closing(sqlite3.connect(swapped)) as connection, connection:
        for here, there in (("h.0/ln_2", "?"), ("h.0/mlp/1", "h.0/ln_2"), ("?", "h.0/mlp/1")):
            connection.execute("UPDATE ops SET op_name = replace(op_name, ?, ?)", (here, there))
        there, here = "/GPT/h.1/attn/c_proj/", "/GPT/h.1/attn/c_attn/"
        connection.execute("UPDATE ops SET op_name = replace(op_name, ?, ?)", (here, there))
    found = compare(databases["gpt_eager"], swapped)
    assert found["wrong"] > 0
    assert found["in_both_wrong"] > 0


@pytest.mark.parametrize("name", ["gpt_eager", "gpt_compiled"])
def test_steps_have_the_tokens_that_the_program_counted(
    name: str, databases: dict[str, Path]
) -> None:
    rows = query(
        databases[name], "SELECT phase, phase_iterations, tokens FROM view_phases WHERE aggr_id = 2"
    )
    whole = query(databases[name], "SELECT tokens FROM view_phases WHERE aggr_id = 1")
    ranges = query(databases[name], "SELECT sum(tokens) FROM phase_ranges")
    assert [(phase, tokens / count) for phase, count, tokens in rows] == [
        ("train", TOKENS_PER_STEP)
    ]
    assert whole == ranges


def test_steps_launched_ahead_of_the_gpu_have_no_utilization_of_their_own(
    databases: dict[str, Path],
) -> None:
    """The GPU runs their work after the last of them: only that of the whole run has its time."""
    rows = query(
        databases["gpt_large_batch"],
        "SELECT mfu, hfu, mfu_at_least, median_step_mfu, median_step_hfu,"
        " median_step_mfu_at_least FROM view_model_efficiency ORDER BY aggr_id",
    )
    ((highest,),) = query(
        databases["gpt_large_batch"], "SELECT max(mfu_at_least) FROM view_iteration_efficiency"
    )
    ((ideal_ns, wall_ns),) = query(
        databases["gpt_large_batch"],
        "SELECT sum(e.model_ideal_time), sum(i.stop - i.start) FROM iterations AS i"
        " LEFT JOIN iteration_efficiency AS e USING (aggr, iter_value) WHERE i.aggr = 1",
    )
    assert rows[0][:3] == pytest.approx([100 * ideal_ns / wall_ns] * 3, abs=1e-5)
    assert set(rows[0][3:] + rows[1]) == {None}
    assert highest is None


def test_the_bytes_of_generated_kernels_are_those_that_the_memory_moved(
    databases: dict[str, Path],
) -> None:
    """Against the counters of the memory, which Nsight Compute read in a run of its own."""
    counted: dict[str, list[int]] = {}
    with (CAPTURES / "gpt_large_batch_dram.csv").open() as file:
        for row in csv.DictReader(file):
            moved = int(row["read"]) + int(row["written"])
            counted.setdefault(row["kernel"], []).append(moved)
    sql = (
        "SELECT DISTINCT n.long_name, u.bytes_per_call FROM view_op_units AS u"
        " JOIN ops AS o ON o.op_id = u.op_node_id JOIN op_kernels AS p ON p.op = o.id"
        " JOIN kernel_names AS n ON n.id = p.kernel"
        " WHERE u.aggr_id = 1 AND n.long_name LIKE 'triton%' AND u.bytes_per_call > ?"
    )
    recorded = query(databases["gpt_large_batch"], sql, L2_BYTES)
    assert len(recorded) >= 8
    for kernel, num_bytes in recorded:
        moved = counted[kernel][0]
        assert moved - 0.02 * num_bytes < num_bytes < moved + L2_BYTES, kernel
