"""Our counts beside the hardware counters of Nsight Compute, for tests and for benchmarks/FLOPS.md.

``ops.sqlite.xz`` holds one execution of many ops on an H200, each forward and backward in a range
``case CLASS|NAME|DIRECTION``; ``op_counters.csv`` what the counters said of the same kernels, and
``step_counters.csv`` the counters of one whole training step of each shared profile, by class of
operator (the kernels of both captures have the same names in the same order).

``python -m tests.flops.counters`` prints the table of the document.
"""

from __future__ import annotations

import csv
import lzma
import re
import sqlite3
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress

DATA = Path(__file__).parent.parent / "data" / "flops"
CLASSES = {
    "convolution, forward": r"^(cudnn_)?_?convolution$",
    "convolution, backward": r"^convolution_backward$",
    "matrix product": r"^(addmm|mm|bmm|baddbmm)$",
    "attention": r"^_(scaled_dot_product|flash_att|efficient_att|cudnn_att)",
    "norm": r"(batch|layer|group)_norm",
    "optimizer": r"^_foreach|^_fused|^_amp",
    "embedding": r"^embedding|^index_select",
    "pool": r"pool",
    "softmax and loss": r"softmax|nll_loss",
    "reduction": r"^(sum|mean|amax|norm|linalg_vector_norm)$",
}
OTHERS = "elementwise and copies"
_COUNTS = """
    SELECT i.start, u.name, p.calls, u.flops, u.bytes, u.is_matrix
    FROM op_instances AS i JOIN op_cost_parts AS p ON p.cost = i.cost
    JOIN cost_units AS u ON u.id = p.unit WHERE i.start BETWEEN ? AND ?
"""


@dataclass
class Counted:
    """Our count; None: something of it is unknown. Units: operations and bytes."""

    flops: int | None = 0
    matrix_flops: int = 0
    num_bytes: int | None = 0

    def add(self, calls: int, flops: int | None, num_bytes: int | None, is_matrix: int) -> None:
        if self.flops is not None:
            self.flops = None if flops is None else self.flops + calls * flops
        if self.num_bytes is not None:
            self.num_bytes = None if num_bytes is None else self.num_bytes + calls * num_bytes
        self.matrix_flops += calls * (flops or 0) * is_matrix


def class_of(operator: str) -> str:
    name = operator.rstrip("_")
    return next((kind for kind, form in CLASSES.items() if re.search(form, name)), OTHERS)


def imported(source: Path, folder: Path) -> Path:
    import_profile(ImportOptions(source, folder / "dldb.sqlite"), NullProgress())
    return folder / "dldb.sqlite"


def read_counters(name: str, *keys: str) -> dict[tuple[str, ...], dict[str, int]]:
    """Rows of a table of counters by their text columns."""
    with (DATA / name).open(newline="") as file:
        return {
            tuple(row[key] for key in keys): {
                column: int(value) for column, value in row.items() if column not in keys
            }
            for row in csv.DictReader(file)
        }


def cases(folder: Path) -> dict[tuple[str, ...], Counted]:
    """Our counts of every case of the capture of ops."""
    source = folder / "ops.sqlite"
    source.write_bytes(lzma.decompress((DATA / "ops.sqlite.xz").read_bytes()))
    connection = sqlite3.connect(imported(source, folder))
    found: dict[tuple[str, ...], Counted] = {}
    query = "SELECT start, end, text FROM NVTX_EVENTS WHERE text LIKE 'case %|%' ORDER BY start"
    for start, end, text in sqlite3.connect(source).execute(query).fetchall():
        counted = found[tuple(text.removeprefix("case ").split("|"))] = Counted()
        for row in connection.execute(_COUNTS, (start, end)):
            counted.add(*row[2:])
    return found


def step(profile: Path, iteration: int, database: Path) -> dict[str, Counted]:
    """Our counts of one training step, by class; from the export, and its database."""
    connection = sqlite3.connect(database)
    window = (
        sqlite3.connect(profile)
        .execute(
            "SELECT start, end FROM NVTX_EVENTS WHERE text = ?1 OR textId IN"
            " (SELECT id FROM StringIds WHERE value = ?1)",
            (f"iteration {iteration}",),
        )
        .fetchone()
    )
    found: dict[str, Counted] = defaultdict(Counted)
    for row in connection.execute(_COUNTS, window):
        found[class_of(row[1])].add(*row[2:])
    return found


def _deviation(ours: int | None, theirs: int) -> str:
    if ours is None:
        return "unknown"
    return f"{100 * (ours / theirs - 1):+.1f} %" if theirs else "-"


def _print_cases() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours = cases(Path(folder))
    print("| op | | operations: ours, GFLOP | flop_counter | counted | bytes: ours, MB | DRAM |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for key, seen in read_counters("op_counters.csv", "class", "case", "direction").items():
        mine = ours[key]
        executed = seen["tensor_ops"] + seen["vector_ops"]
        if mine.matrix_flops:
            executed = seen["tensor_ops"] or seen["vector_ops"]
        compared = _deviation(mine.matrix_flops or mine.flops, executed)
        moved = 0 if mine.num_bytes is None else mine.num_bytes / 1e6
        print(
            f"| {key[0]}: {key[1]} | {key[2]} | {(mine.flops or 0) / 1e9:.3f} "
            f"| {_deviation(mine.matrix_flops, seen['flop_counter'])} | {compared} | {moved:.1f} "
            f"| {_deviation(mine.num_bytes, seen['dram_bytes'])} |"
        )


def _print_steps(profiles: Path) -> None:
    print("\n| step | class | kernels | ours, GFLOP | counted | ours, MB | DRAM |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rows = read_counters("step_counters.csv", "profile", "class")
    for name in dict.fromkeys(key[0] for key in rows):
        mine = {key[1]: seen for key, seen in rows.items() if key[0] == name}
        iteration = next(iter(mine.values()))["iteration"]
        with tempfile.TemporaryDirectory() as folder:
            source = profiles / f"{name}.sqlite"
            ours = step(source, iteration, imported(source, Path(folder)))
        for kind, seen in mine.items():
            counted = ours[kind]
            executed = seen["tensor_ops"] or seen["vector_ops"]
            print(
                f"| {name} | {kind} | {seen['kernels']} | {(counted.flops or 0) / 1e9:.3f} "
                f"| {_deviation(counted.matrix_flops or counted.flops, executed)} "
                f"| {(counted.num_bytes or 0) / 1e6:.1f} "
                f"| {_deviation(counted.num_bytes, seen['dram_bytes'])} |"
            )


if __name__ == "__main__":
    _print_cases()
    if len(sys.argv) > 1:
        _print_steps(Path(sys.argv[1]))
