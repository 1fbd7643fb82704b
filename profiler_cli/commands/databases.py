"""The aggregation of a database that a subcommand shows."""

from __future__ import annotations

from aggregator.errors import DatabaseError, UsageError


def chosen_aggregation(known: list[int], wanted: int | None) -> int:
    """The wanted aggregation of a database; None: the last one.

    Raises:
        DatabaseError: There is no aggregation at all.
        UsageError: There is no such aggregation.
    """
    if not known:
        raise DatabaseError(
            "The database has no aggregation.",
            hint="Aggregate its profile again: dlprof --database=profile.sqlite",
        )
    chosen = [name for name in known if wanted in (None, name)]
    if not chosen:
        listed = ", ".join(str(name) for name in known)
        raise UsageError(f"The database has no aggregation {wanted}.", hint=f"There are: {listed}.")
    return chosen[-1]
