"""Starts the viewer's own worker: ``python -m aggregator.jobs.celery_worker``.

It is ``celery -A aggregator worker`` without Celery's command line, whose other commands take a
third of the start.
"""

from __future__ import annotations

import sys

from aggregator.jobs.celery_app import app


def main() -> int:
    """Do jobs until a signal ends the worker; return the exit code."""
    worker = app.Worker(
        quiet=True,
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


if __name__ == "__main__":
    sys.exit(main())
