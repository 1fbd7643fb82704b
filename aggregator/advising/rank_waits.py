"""What the ranks of a job waited for each other in the steps looked at."""

from __future__ import annotations

import sqlite3

from aggregator.expert.advice.facts import RankWait, Steps


def read_rank_waits(connection: sqlite3.Connection, steps: Steps) -> tuple[RankWait, ...]:
    """Waiting of each rank in the collectives that the window launched.

    Empty where a rank's waiting is unknown: the others may have waited for it.
    """
    ranks = connection.execute("SELECT count(*) FROM ranks").fetchone()[0]
    found = connection.execute(
        "SELECT r.rank, sum(c.waiting), sum(c.kept_waiting) FROM collectives AS c"
        " JOIN kernels AS k ON k.id = c.kernel JOIN ranks AS r ON r.id = c.rank"
        " WHERE k.api_start >= ? AND k.api_start < ? GROUP BY r.rank ORDER BY r.rank",
        (steps.api_low_ns, steps.api_high_ns),
    ).fetchall()
    if len(found) != ranks or ranks < 2 or any(None in row for row in found):
        return ()
    return tuple(RankWait(int(rank), int(own), int(others)) for rank, own, others in found)
