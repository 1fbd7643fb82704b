"""Make rank files from a real capture: split it by process, repeat it for any number of ranks.

Each file is an Nsight Systems export as a single rank would write it: with its own clock and start
time, its own host name, and GPU numbers and process ids that repeat on other hosts.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

PID = "(({column} >> 24) & 16777215)"
GPU_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
)
CPU_TABLES = ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME")


@dataclass(frozen=True)
class Placing:
    """Where and when a rank ran.

    Attributes:
        host: Name of its machine.
        gpu: Number of its GPU there.
        gpus_per_host: GPUs of the machine.
        session_delay_ns: How much earlier its session started than the source's. Unit: ns.
        clock_error_ns: How far the machine's clock is ahead of the truth. Unit: ns.
    """

    host: str
    gpu: int
    gpus_per_host: int = 8
    session_delay_ns: int = 0
    clock_error_ns: int = 0


@contextmanager
def edited(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = MEMORY")
        yield connection
        connection.commit()


def split(export: Path, folder: Path) -> list[Path]:
    """One export per process that used a GPU; what other processes did stays with the first."""
    with closing(sqlite3.connect(f"file:{export}?mode=ro", uri=True)) as connection:
        query = f"SELECT DISTINCT {PID.format(column='globalPid')} FROM {GPU_TABLES[0]} ORDER BY 1"
        pids = [row[0] for row in connection.execute(query)]
    made = []
    for number, pid in enumerate(pids):
        path = folder / f"{export.stem}_rank{number}.sqlite"
        shutil.copyfile(export, path)
        others = [other for other in pids if other != pid] if number == 0 else None
        _keep(path, pid, others)
        made.append(path)
    return made


def _keep(path: Path, pid: int, dropped: list[int] | None) -> None:
    """Keep one process, or all but some."""
    with edited(path) as connection:
        for table in _tables(connection):
            columns = {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
            column = next((name for name in ("globalTid", "globalPid") if name in columns), "")
            if not column or table == "PROCESSES":
                continue
            own = PID.format(column=column)
            listed = ", ".join(map(str, dropped or ()))
            unwanted = f"{own} IN ({listed})" if dropped else f"{own} <> {pid}"
            connection.execute(f'DELETE FROM "{table}" WHERE {unwanted}')
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")


def _tables(connection: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return [row[0] for row in connection.execute(query)]


def place(source: Path, target: Path, placing: Placing) -> Path:
    """Copy a single-process export to another GPU, host and clock."""
    shutil.copyfile(source, target)
    with edited(target) as connection:
        present = _tables(connection)
        for table in (*CPU_TABLES, *GPU_TABLES):
            if table in present and placing.session_delay_ns:
                shift(connection, table, 0, placing.session_delay_ns)
        started = placing.clock_error_ns - placing.session_delay_ns
        connection.execute(
            "UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + ?", (started,)
        )
        connection.execute(
            "UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE name = 'Hostname'", (placing.host,)
        )
        for table in (*GPU_TABLES, "CUPTI_ACTIVITY_KIND_CUDA_EVENT"):
            if table in present:
                connection.execute(f"UPDATE {table} SET deviceId = ?", (placing.gpu,))
        _place_gpus(connection, placing)
    return target


def _place_gpus(connection: sqlite3.Connection, placing: Placing) -> None:
    columns = [row[1] for row in connection.execute("PRAGMA table_info(TARGET_INFO_GPU)")]
    row = connection.execute("SELECT * FROM TARGET_INFO_GPU ORDER BY id LIMIT 1").fetchone()
    pid = connection.execute(
        f"SELECT {PID.format(column='globalPid')} FROM {GPU_TABLES[0]} LIMIT 1"
    ).fetchone()[0]
    connection.execute("DELETE FROM TARGET_INFO_GPU")
    connection.execute("DELETE FROM TARGET_INFO_CUDA_DEVICE")
    marks = ", ".join("?" * len(columns))
    for gpu in range(placing.gpus_per_host):
        values = dict(zip(columns, row, strict=True))
        values |= {"id": gpu, "cuDevice": gpu, "uuid": f"{placing.host}-{gpu}"}
        kept = [values[name] for name in columns]
        connection.execute(f"INSERT INTO TARGET_INFO_GPU VALUES ({marks})", kept)
        connection.execute(
            "INSERT INTO TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid) VALUES (?, ?, ?)",
            (gpu, gpu, pid),
        )


def shift(connection: sqlite3.Connection, table: str, cut_ns: int, by_ns: int) -> None:
    """Move everything from a point in time on; what is open then gets longer."""
    connection.execute(f'UPDATE "{table}" SET "end" = "end" + ? WHERE "end" >= ?', (by_ns, cut_ns))
    connection.execute(f'UPDATE "{table}" SET start = start + ? WHERE start >= ?', (by_ns, cut_ns))


def collectives(path: Path) -> list[tuple[int, int, int]]:
    """(rowid, start, end) of the NCCL kernels of an export, in order."""
    query = (
        "SELECT k.rowid, k.start, k.end FROM CUPTI_ACTIVITY_KIND_KERNEL AS k"
        " JOIN StringIds AS s ON s.id = k.shortName WHERE s.value LIKE 'nccl%' ORDER BY k.start"
    )
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def come_late(path: Path, number: int, by_ns: int) -> None:
    """Let a rank come late to a collective: it and all that follows start later."""
    _, start, _ = collectives(path)[number]
    with edited(path) as connection:
        for table in CPU_TABLES:
            shift(connection, table, start, by_ns)
        _shift_whole(connection, start, by_ns)


def be_kept_waiting(path: Path, number: int, by_ns: int) -> None:
    """Let a rank's collective last longer, as long as another rank is late; the rest follows."""
    row, _, end = collectives(path)[number]
    with edited(path) as connection:
        for table in CPU_TABLES:
            shift(connection, table, end, by_ns)
        _shift_whole(connection, end, by_ns)
        connection.execute(
            f'UPDATE {GPU_TABLES[0]} SET "end" = "end" + ? WHERE rowid = ?', (by_ns, row)
        )


def _shift_whole(connection: sqlite3.Connection, cut_ns: int, by_ns: int) -> None:
    """Move work on the GPU that starts from a point in time on; what runs then stays as it is."""
    present = _tables(connection)
    for table in GPU_TABLES:
        if table in present:
            connection.execute(
                f'UPDATE {table} SET start = start + ?, "end" = "end" + ? WHERE start >= ?',
                (by_ns, by_ns, cut_ns),
            )


def make_ranks(
    sources: list[Path], count: int, folder: Path, *, gpus_per_host: int = 8
) -> list[Path]:
    """Tile single-process exports to a job of many ranks on many hosts.

    Each session starts at another time, and each host's clock is off by another amount.
    """
    made = []
    for rank in range(count):
        host = rank // gpus_per_host
        placing = Placing(
            host=f"node{host}",
            gpu=rank % gpus_per_host,
            gpus_per_host=gpus_per_host,
            session_delay_ns=1_000_003 * (rank * 7 % 13),
            clock_error_ns=0 if host == 0 else 12_345_678 * (host * 5 % 11 - 5),
        )
        path = folder / f"rank{rank}.sqlite"
        made.append(place(sources[rank % len(sources)], path, placing))
    return made
