"""Redis as broker and result backend of jobs; loaded only where it is used."""

from __future__ import annotations

from queue import Empty
from typing import Any

from celery.backends.redis import RedisBackend
from kombu.transport import redis

from aggregator.jobs.celery_app import MALFORMED, log_malformed


class RedisChannel(redis.Channel):
    """Kombu's Redis channel, in which a malformed message does not end the worker."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc] # missing in the stubs
        except MALFORMED as error:
            log_malformed(error)
            raise Empty from error


class RedisTransport(redis.Transport):
    """Messages in Redis."""

    Channel = RedisChannel


class PolledRedisBackend(RedisBackend):
    """Celery's Redis backend without a subscription to the result of every task that is sent."""

    def on_task_call(self, producer: Any, task_id: str) -> None:
        """Subscribe to nothing: the viewer polls the states."""
