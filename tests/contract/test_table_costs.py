"""Tables of a profile of 8,000 ops cost few steps of SQLite's machine; time is not measured.

A join or a condition that looks through all rows for each row takes 64 million of them; the limits
are 2 million for the first page and 8 million for any.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from aggregator.tables.declared.addresses import TABLES
from aggregator.tables.declared.profile import DEFAULT_DOMAIN
from aggregator.tables.request import parse_list_query
from aggregator.tables.spec import TableSpec
from tests.builders import Trace, analyze, query
from tests.conftest import made_once
from tests.contract.test_tables import _filter_value

RANKS, BLOCKS, OPS, STEPS = 2, 10, 10, 2
NAMES = ("linear", "gelu", "layer_norm", "conv2d", "softmax")
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

SMALL, LARGE = 3_000, 8_000
MOST_FOR_THE_FIRST_PAGE, MOST_FOR_ANY = 240, 1_000
"""Steps for each op of the profile."""
_STEPS_PER_CALL = 1_000
EVERY_TABLE = pytest.mark.parametrize("address", TABLES, ids=lambda address: TABLES[address].name)
Make = Callable[[int], Path]


@pytest.fixture(scope="module")
def with_ops(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A function from a number of ops to the database of a profile with about so many."""

    def make(num_ops: int, path: Path) -> None:
        folder = path.with_name(f"{path.name}.made")
        folder.mkdir()
        analyze(_trace(num_ops // (RANKS * BLOCKS * OPS)), folder).path.rename(path)

    return lambda num_ops: made_once(
        tmp_path_factory, f"{num_ops}_ops.dldb.sqlite", partial(make, num_ops)
    )


def _trace(num_layers: int) -> Trace:
    """Two ranks; each layer has ten blocks of ten ops, and every tenth a collective."""
    trace = Trace()
    for rank in range(RANKS):
        trace.gpu(rank)
        trace.cuda_device(100 + rank, rank, rank)
        thread = trace.thread(pid=100 + rank)
        at = 0
        for step in range(STEPS):
            step_begin = at
            for layer in range(num_layers):
                layer_begin = at + 1
                for block in range(BLOCKS):
                    block_begin = at + 2
                    for number in range(OPS):
                        at += 50
                        sizes = "" if number % 2 else "[[8, 64], [64, 64]]"
                        thread.op(NAMES[number % len(NAMES)], at, at + 40, sizes=sizes)
                        gpu = (at + 8 + rank * number, at + 30 + number)
                        thread.launch(f"kernel_{number}_{block}", at + 4, gpu=gpu, device=rank)
                    at += 50
                    thread.range(f"block_{block}", block_begin, at)
                if layer % 10 == 0:
                    thread.launch(REDUCE, at + 4, gpu=(at + 8, at + 60), device=rank, stream=9)
                    at += 70
                at += 1
                thread.range(f"layers.{layer}", layer_begin, at)
            at += 1
            thread.range(f"iteration {step}", step_begin, at)
    return trace


def _place(path: Path) -> dict[str, Any]:
    """Values for the holes of addresses."""
    sql = "SELECT op_node_id FROM view_op_nodes WHERE aggr_id = 1 ORDER BY gpu_time DESC LIMIT 1"
    return {"iteration": 1, "op_id": query(path, sql)[0][0]}


def _read(path: Path, spec: TableSpec, within: dict[str, Any], /, **asked: str) -> tuple[int, Any]:
    """How many steps a page takes, and the page."""
    calls = 0

    def count() -> int:
        nonlocal calls
        calls += 1
        return 0

    wanted = parse_list_query(spec, asked)
    with opened(path, time_limit_s=600) as database:
        params: dict[str, str | int] = {"aggr_id": 1, "domain": DEFAULT_DOMAIN, **within}
        data = AggregationData(database, params)
        data.resolve(spec)
        database.read_with(lambda one: one.set_progress_handler(count, _STEPS_PER_CALL))
        page = data.page(spec, wanted)
    return calls * _STEPS_PER_CALL, page


def test_the_profile_has_rows_in_every_table(with_ops: Make) -> None:
    path = with_ops(SMALL)
    place = _place(path)
    counts = {name: _read(path, spec, place)[1]["count"] for name, spec in TABLES.items()}
    assert counts["ops"] >= SMALL
    assert [name for name, count in counts.items() if not count] == ["phases"]


@EVERY_TABLE
def test_the_first_page_is_quick_with_many_ops(with_ops: Make, address: str) -> None:
    path = with_ops(LARGE)
    steps, _ = _read(path, TABLES[address], _place(path))
    assert steps <= MOST_FOR_THE_FIRST_PAGE * LARGE


@pytest.mark.parametrize("num_ops", [SMALL, LARGE])
@EVERY_TABLE
def test_no_order_and_no_filter_takes_the_square_of_the_ops(
    with_ops: Make, address: str, num_ops: int
) -> None:
    path = with_ops(num_ops)
    spec, place = TABLES[address], _place(path)
    rows = _read(path, spec, place)[1]["results"]
    asked = [{"search": "layers"}]
    for column in spec.columns:
        # As the page asks first; the plan of the other direction is the same.
        asked.append({"ordering": f"-{column.name}"})
        known = [row[column.name] for row in rows if row[column.name] is not None]
        for name in column.filters if known else ():
            operator = name.removeprefix(column.name).removeprefix("__")
            asked.append({name: str(_filter_value(column, operator, known[len(known) // 2]))})
    steps = {str(one): _read(path, spec, place, **one)[0] for one in asked}
    assert {one: count for one, count in steps.items() if count > MOST_FOR_ANY * num_ops} == {}
