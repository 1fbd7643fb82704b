"""Whose turn it is: clients take turns, and the profiles of each client do."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from django.db.models import Count, Max, Min, Q
from django.utils import timezone

from viewer.jobs.models import Job, JobState

Pair: TypeAlias = tuple[str, str]
"""A client and one of their profiles."""
Turn: TypeAlias = tuple[int, datetime]
"""How many jobs run, and when the last one began."""

_NEVER = datetime.min.replace(tzinfo=UTC)
_NOBODY = (0, _NEVER)
_PLAY_KEPT_S = 1.0
_played: list[tuple[float, dict[str, int]]] = [(0.0, {})]


def next_due() -> Job | None:
    """The queued job to begin next.

    The client of whom the fewest jobs run, and among those the one who has waited longest since a
    job of theirs began; then the same among that client's profiles; then the oldest job. So a
    user who queues a thousand jobs delays another's first by one job, not by a thousand.
    """
    waiting = {
        (client, profile): oldest
        for client, profile, oldest in Job.objects.filter(state=JobState.QUEUED)
        .values_list("client", "profile_id")
        .annotate(oldest=Min("created_at"))
    }
    if not waiting:
        return None
    served = _served({client for client, _ in waiting})
    by_client = _by_client(served)
    client, profile = _first(waiting, served, by_client)
    queued = Job.objects.filter(state=JobState.QUEUED, client=client, profile_id=profile)
    return queued.order_by("created_at", "id").first()


def jobs_before(job: Job) -> int:
    """How many of the queued jobs would begin before this one if no others came.

    The turns are played through; that a running job of a client ends meanwhile is left out. All
    who ask within a second share one play.
    """
    made_at, order = _played[0]
    if job.id not in order or time.monotonic() - made_at > _PLAY_KEPT_S:
        order = {job_id: turn for turn, job_id in enumerate(_play())}
        _played[0] = (time.monotonic(), order)
    return order.get(job.id, 0)


def _play() -> Iterator[str]:
    """Queued jobs in the order in which they will begin."""
    waiting: dict[Pair, deque[tuple[datetime, str]]] = {}
    queued = Job.objects.filter(state=JobState.QUEUED).order_by("created_at", "id")
    for client, profile, created, job_id in queued.values_list(
        "client", "profile_id", "created_at", "id"
    ):
        waiting.setdefault((client, profile), deque()).append((created, job_id))
    served = _served({client for client, _ in waiting})
    by_client = _by_client(served)
    moment = timezone.now()
    while waiting:
        pair = _first({one: jobs[0] for one, jobs in waiting.items()}, served, by_client)
        yield waiting[pair].popleft()[1]
        if not waiting[pair]:
            del waiting[pair]
        moment += timedelta(microseconds=1)
        by_client[pair[0]] = (by_client.get(pair[0], _NOBODY)[0], moment)
        served[pair] = (served.get(pair, _NOBODY)[0], moment)


def _first(
    oldest: Mapping[Pair, Any], served: Mapping[Pair, Turn], by_client: Mapping[str, Turn]
) -> Pair:
    """The client and profile whose turn it is; ``oldest`` tells what each waits with."""
    return min(
        oldest,
        key=lambda pair: (
            by_client.get(pair[0], _NOBODY),
            served.get(pair, _NOBODY),
            oldest[pair],
        ),
    )


def _by_client(served: Mapping[Pair, Turn]) -> dict[str, Turn]:
    """The same for all profiles of a client together."""
    found: dict[str, Turn] = {}
    for (client, _), (running, last) in served.items():
        before = found.get(client, _NOBODY)
        found[client] = (before[0] + running, max(before[1], last))
    return found


def _served(clients: set[str]) -> dict[Pair, Turn]:
    """For each client and profile: how many jobs run, and when the last one began."""
    rows = (
        Job.objects.filter(client__in=clients, started_at__isnull=False)
        .values_list("client", "profile_id")
        .annotate(
            running=Count("id", filter=Q(state=JobState.RUNNING)), last_began=Max("started_at")
        )
    )
    return {(client, profile): (running, last) for client, profile, running, last in rows}
