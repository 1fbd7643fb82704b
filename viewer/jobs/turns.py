"""Whose turn it is: clients take turns, and the profiles of each client do."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db.models import Count, Max, Min, Q

from viewer.jobs.models import Job, JobState

_NEVER = datetime.min.replace(tzinfo=UTC)


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
    by_client: dict[str, tuple[int, datetime]] = {}
    for (client, _), (running, last) in served.items():
        before = by_client.get(client, (0, _NEVER))
        by_client[client] = (before[0] + running, max(before[1], last))
    nobody = (0, _NEVER)
    client, profile = min(
        waiting,
        key=lambda pair: (by_client.get(pair[0], nobody), served.get(pair, nobody), waiting[pair]),
    )
    queued = Job.objects.filter(state=JobState.QUEUED, client=client, profile_id=profile)
    return queued.order_by("created_at", "id").first()


def _served(clients: set[str]) -> dict[tuple[str, str], tuple[int, datetime]]:
    """For each client and profile: how many jobs run, and when the last one began."""
    rows = (
        Job.objects.filter(client__in=clients, started_at__isnull=False)
        .values_list("client", "profile_id")
        .annotate(
            running=Count("id", filter=Q(state=JobState.RUNNING)), last_began=Max("started_at")
        )
    )
    return {(client, profile): (running, last) for client, profile, running, last in rows}
