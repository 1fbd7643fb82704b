"""Advice of an aggregation as rows of its database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from aggregator.advising.reading import read_facts
from aggregator.advising.steps import NoSteps
from aggregator.dldb.guarded import DAMAGE
from aggregator.dldb.writer import Table, insert_rows
from aggregator.expert.advice import advise
from aggregator.expert.advice.finding import Finding, Unknown
from aggregator.texts import say

FOUND, UNKNOWN = "found", "unknown"


def write_advice(path: Path, aggregations: Iterable[int]) -> None:
    """Judge aggregations of a database whose other tables are complete."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for aggr in aggregations:
            add_advice(connection, aggr)
        connection.commit()


def add_advice(connection: sqlite3.Connection, aggr: int) -> None:
    """Judge one aggregation, inside the transaction that writes it.

    A database of an early version, which has no table for it, goes without.
    """
    known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'advice'"
    if connection.execute(known).fetchone() is None:
        return
    insert_rows(connection, _table(aggr, *judge(connection, aggr)))


def judge(connection: sqlite3.Connection, aggr: int) -> tuple[list[Finding], list[Unknown]]:
    """Advice, and open questions, of an aggregation."""
    try:
        facts = read_facts(connection, aggr)
    except DAMAGE as error:
        raise sqlite3.DatabaseError(f"its values do not fit together ({error})") from error
    except NoSteps:
        return [], [
            Unknown(
                "steps",
                say(
                    "No advice can be given: the aggregated range holds no loop of at least two "
                    "like steps"
                ),
                say(
                    "A key node that marks the steps (--key_node), and a range of several of them "
                    "behind the warm-up"
                ),
            )
        ]
    return advise(facts)


def _table(aggr: int, found: list[Finding], unknown: list[Unknown]) -> Table:
    rows = [_found_row(one) for one in found] + [_unknown_row(one) for one in unknown]
    columns: dict[str, list[str | int | float | None]] = {
        name: [row[name] for row in rows] for name in _COLUMNS
    }
    places: list[str | int | float | None] = list(range(1, len(rows) + 1))
    return Table("advice", {"aggr": [aggr] * len(rows), "place": places, **columns})


_COLUMNS = (
    *("advice", "status", "severity", "gain_pct", "certainty", "problem", "recommendation"),
    *("reasoning", "needs", "frameworks", "drill_down", "evidence", "proof_query"),
    *("proof_column", "proof_value"),
)


def _found_row(finding: Finding) -> dict[str, str | int | float | None]:
    proof, link = finding.proof, finding.link
    return {
        "advice": finding.advice,
        "status": FOUND,
        "severity": finding.level.value,
        "gain_pct": None if finding.gain_pct is None else round(finding.gain_pct, 2),
        "certainty": finding.certainty.value,
        "problem": finding.problem,
        "recommendation": finding.recommendation,
        "reasoning": finding.reasoning,
        "needs": finding.needs or "",
        "frameworks": finding.frameworks,
        "drill_down": "" if link is None else json.dumps(link.as_json()),
        "evidence": json.dumps([item.as_json() for item in finding.evidence]),
        "proof_query": proof.query,
        "proof_column": proof.column,
        "proof_value": proof.value,
    }


def _unknown_row(unknown: Unknown) -> dict[str, str | int | float | None]:
    told: dict[str, str | int | float | None] = dict.fromkeys(_COLUMNS, "")
    return told | {
        "advice": unknown.advice,
        "status": UNKNOWN,
        "gain_pct": None,
        "problem": unknown.problem,
        "needs": unknown.needs,
        "evidence": "[]",
        "proof_value": None,
    }
