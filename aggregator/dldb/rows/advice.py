"""Advice of an aggregation as rows of its database."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, replace
from typing import TypeAlias

from aggregator.advice import advise
from aggregator.advice.facts import Facts
from aggregator.advice.finding import Finding, Unknown
from aggregator.advice.reader import read_facts
from aggregator.advice.recorded_memory import RecordedMemory
from aggregator.advice.verdict import MIN_STEPS
from aggregator.dldb.guarded import DAMAGE
from aggregator.dldb.rows.corrected import read_corrected
from aggregator.dldb.rows.replay import replay_tables
from aggregator.dldb.writer import Table, has_table, insert_rows
from aggregator.events.store import EventStore
from aggregator.events.window import NoStepsError
from aggregator.profile.profile import SourceFormat
from aggregator.replay.scale import read_scale
from aggregator.texts import say

FOUND, UNKNOWN = "found", "unknown"
_MOSTLY = 0.8  # Share of the steps that decode, if decoding is judged.
Value: TypeAlias = "str | int | float | None"


def add_advice(
    connection: sqlite3.Connection, store: EventStore, aggr: int, known: Facts | None = None
) -> Facts | None:
    """Add advice and the replay that it uses to an aggregation, in the transaction that writes it.

    Does nothing if the database is of an early version that has no table for advice; columns that
    it lacks are left out.

    Args:
        connection: The database.
        store: Its events.
        aggr: Number of the aggregation.
        known: Facts of another aggregation of the same iterations.

    Returns:
        The facts; None: there are none.
    """
    if not has_table(connection, "advice"):
        return None
    columns = {str(row[1]) for row in connection.execute("PRAGMA table_info(advice)")}
    facts = find_facts(connection, store, aggr, known)
    meta = dict(store.values("dldb_meta", "key", "value"))
    is_kineto = meta.get("source_format") == SourceFormat.KINETO
    table = _table(aggr, *collect_advice(facts, is_kineto=is_kineto))
    kept = {name: column for name, column in table.columns.items() if name in columns}
    insert_rows(connection, Table("advice", kept))
    if facts is not None and facts.replayed is not None:
        for table in replay_tables(aggr, facts.replayed):
            if has_table(connection, table.name):
                insert_rows(connection, table)
    return facts


def find_facts(
    connection: sqlite3.Connection, store: EventStore, aggr: int, known: Facts | None = None
) -> Facts | None:
    """Read the facts of an aggregation, or None if it has no GPU work.

    ``known`` are those of another aggregation of the same iterations.
    """
    try:
        facts = read_facts(store, aggr, known)
        if known is not None and facts.work is known.work:
            return _scaled(facts, store)
        facts = replace(
            facts,
            decode_bandwidth_pct=_decode_bandwidth_pct(connection, aggr),
            memories=read_recorded_memory(connection),
            corrected=None
            if facts.replayed is None
            else read_corrected(connection, store, aggr, facts.replayed),
        )
        return _scaled(facts, store)
    except DAMAGE as error:
        raise sqlite3.DatabaseError(f"its values do not fit together ({error})") from error
    except NoStepsError:
        return None


def _scaled(facts: Facts, store: EventStore) -> Facts:
    """Return the facts with the step that a replay's times are parts of, as for a what-if."""
    if facts.replay is None:
        return facts
    is_corrected = facts.trusted_correction is not None
    scale = read_scale(store, facts.aggr, facts.replay, is_corrected=is_corrected)
    return replace(facts, scale=scale)


def _decode_bandwidth_pct(connection: sqlite3.Connection, aggr: int) -> float | None:
    """Share of the memory bandwidth of decoding; None: it is unknown, or few steps decode.

    As in ``view_phases``, which is not read: an aggregation runs none of the file's views.
    """
    query = (
        "SELECT count(*), total(stop - start), sum(bytes), total(known_gpu_time), total(graph),"
        " total(tc + non_tc + graph), gpus, rate,"
        " (SELECT count(*) FROM iterations AS i JOIN iteration_phases AS p USING (aggr, iter_value)"
        "  WHERE i.aggr = :aggr AND i.aggregated)"
        " FROM iterations AS i JOIN iteration_phases AS p USING (aggr, iter_value)"
        " JOIN iteration_times AS t USING (aggr, iter_value)"
        " JOIN iteration_efficiency AS e USING (aggr, iter_value)"
        " JOIN model_efficiency AS m USING (aggr)"
        " JOIN peak_rates AS r ON r.aggr = i.aggr AND r.name = 'bandwidth'"
        " WHERE i.aggr = :aggr AND i.aggregated AND p.phase = 'decode' AND t.domain = 1"
    )
    if not has_table(connection, "iteration_phases"):  # In older databases.
        return None
    row = connection.execute(query, {"aggr": aggr}).fetchone()
    decoding, length_ns, moved, known_ns, graph_ns, busy_ns, gpus, rate, steps = row
    if moved is None or not (length_ns and gpus and rate) or decoding < _MOSTLY * steps:
        return None
    if 2 * graph_ns > busy_ns or moved > 2 * rate * known_ns:
        return None
    share = 100.0 * moved / length_ns / gpus / rate
    return share if share <= 100 else None


def collect_advice(
    facts: Facts | None, *, is_kineto: bool = False
) -> tuple[list[Finding], list[Unknown]]:
    """Return the advice and the open questions of an aggregation.

    Args:
        facts: The facts; None: there is no GPU work.
        is_kineto: Whether torch.profiler made the profile.
    """
    if facts is None:
        return [], [
            Unknown(
                "gpu_work",
                say("No advice is available: the aggregated range holds no GPU work"),
                say(
                    "A trace whose activities include CUDA (ProfilerActivity.CUDA), made where "
                    "CUPTI may record: it needs the permission, and no other profiler beside it"
                )
                if is_kineto
                else say(
                    "A capture of a program that uses a GPU and ends normally: what the GPU did "
                    "is lost when a program ends by a signal"
                ),
            )
        ]
    found, unknown = advise(facts)
    if facts.steps.is_single:
        unknown.append(
            Unknown(
                "steps",
                say(
                    "Idle time was not judged: no repeating step was found in the aggregated range"
                ),
                say(
                    "A capture with at least {count} steps after the warm-up; if it has them, a "
                    "key node that marks them (--key_node)",
                    count=MIN_STEPS,
                ),
            )
        )
    return found, unknown


def _table(aggr: int, found: list[Finding], unknown: list[Unknown]) -> Table:
    rows = [_found_row(result) for result in found] + [_unknown_row(result) for result in unknown]
    columns: dict[str, list[Value]] = {
        name: [row.get(name, _EMPTY.get(name, "")) for row in rows] for name in _COLUMNS
    }
    numbers: list[Value] = list(range(1, len(rows) + 1))
    return Table("advice", {"aggr": aggr, "place": numbers, **columns})


_COLUMNS = (
    *(
        "advice",
        "status",
        "severity",
        "gain_ns",
        "gain_pct",
        "most_ns",
        "most_pct",
        "gain_source",
        "gain_bound",
        "certainty",
        "problem",
        "recommendation",
    ),
    *("reasoning", "needs", "frameworks", "drill_down", "evidence", "proof_query"),
    *("proof_column", "proof_value"),
)
_EMPTY: dict[str, Value] = {
    "gain_ns": None,
    "gain_pct": None,
    "most_ns": None,
    "most_pct": None,
    "evidence": "[]",
    "proof_value": None,
}
"""Values of open questions, other than empty text."""


def _found_row(finding: Finding) -> dict[str, Value]:
    return {
        "advice": finding.advice,
        "status": FOUND,
        "severity": finding.level.value,
        "gain_ns": finding.gain_ns,
        "gain_pct": None if finding.gain_pct is None else round(finding.gain_pct, 2),
        "most_ns": finding.most_ns,
        "most_pct": None if finding.most_pct is None else round(finding.most_pct, 2),
        "gain_source": "" if finding.gain_source is None else finding.gain_source.value,
        "gain_bound": "" if finding.gain_pct is None else finding.gain_bound.value,
        "certainty": finding.certainty.value,
        "problem": finding.problem,
        "recommendation": finding.recommendation,
        "reasoning": finding.reasoning,
        "needs": finding.needs or "",
        "frameworks": finding.frameworks,
        "drill_down": "" if finding.link is None else json.dumps(asdict(finding.link)),
        "evidence": json.dumps([asdict(item) for item in finding.evidence]),
        "proof_query": finding.proof.query,
        "proof_column": finding.proof.column,
        "proof_value": finding.proof.value,
    }


def _unknown_row(unknown: Unknown) -> dict[str, Value]:
    return {
        "advice": unknown.advice,
        "status": UNKNOWN,
        "problem": unknown.problem,
        "needs": unknown.needs,
    }


# Reads tables, not views: the views of an untrusted file must not run inside a write transaction.
_RECORDINGS = (
    "SELECT id, device, peak_allocated, peak_active, peak_reserved, failures, failed_bytes"
    " FROM memory_recordings WHERE source <> 'nsys' ORDER BY id"
)
_KINDS = (
    "SELECT k.meaning, sum(a.bytes) AS size FROM memory_allocations AS a"
    " JOIN memory_recordings AS r ON r.id = a.recording"
    " JOIN memory_codes AS k ON k.name = 'kind' AND k.code = a.kind"
    " WHERE a.recording = ? AND a.alloc_event <= r.peak_event"
    " AND (a.free_event = -1 OR a.free_event > r.peak_event)"
    " GROUP BY k.meaning ORDER BY size DESC, k.meaning"
)
_GROWTH = (
    "SELECT name, bytes, steps FROM memory_growth WHERE recording = ? ORDER BY bytes DESC, name"
)
_CHANGES = (
    "SELECT change, peak_allocated FROM memory_changes WHERE recording = ?"
    " ORDER BY peak_allocated, change"
)


def read_recorded_memory(connection: sqlite3.Connection) -> tuple[RecordedMemory, ...]:
    """Return the recordings of PyTorch's allocator; none in databases of versions without them."""
    if not has_table(connection, "memory_growth"):
        return ()
    query = "SELECT device_id, memory_bytes FROM devices"
    totals = dict(connection.execute(query).fetchall())
    return tuple(
        RecordedMemory(
            recording=number,
            device=device,
            # A process counts the GPUs that it can see; they may be others of the machine.
            total_bytes=totals.get(device) or next(iter(totals.values()), None),
            peak_allocated=allocated,
            peak_active=active,
            peak_reserved=reserved,
            failures=failures,
            failed_bytes=failed,
            kinds=dict(connection.execute(_KINDS, (number,)).fetchall()),
            growth=tuple(map(tuple, connection.execute(_GROWTH, (number,)).fetchall())),
            changes=tuple(map(tuple, connection.execute(_CHANGES, (number,)).fetchall())),
        )
        for number, device, allocated, active, reserved, failures, failed in connection.execute(
            _RECORDINGS
        ).fetchall()
    )
