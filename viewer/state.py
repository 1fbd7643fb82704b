"""The viewer's own database is brought up to date by whoever starts first."""

from __future__ import annotations

import fcntl
import logging

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from viewer.environment import Environment
from viewer.state_disk import remark

logger = logging.getLogger(__name__)


def prepare_state() -> None:
    """Create or migrate the state database; safe to call from several processes at once."""
    environment: Environment = settings.ENVIRONMENT
    environment.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    if text := remark(environment.state_dir):
        logger.warning(text)
    with (environment.state_dir / "migrate.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            call_command("migrate", verbosity=0, interactive=False)
    connection.close()
