"""Creates and migrates the viewer's own database."""

from __future__ import annotations

import fcntl
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from aggregator.system.file_systems import file_system
from viewer.environment import Environment
from viewer.settings import IS_STATE_ON_NETWORK

#: The state as it was before the last migration.
BACKUP = "viewer.sqlite3.before-migration"

logger = logging.getLogger(__name__)


def prepare_state() -> None:
    """Create or migrate the state database; safe to call from several processes at once."""
    environment: Environment = settings.ENVIRONMENT
    environment.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    if IS_STATE_ON_NETWORK:
        logger.warning(
            "the state folder %s is on a network file system (%s): only one server may use it, and "
            "it is slower; set DLPROF_STATE_DIR to a folder on a local disk",
            environment.state_dir,
            file_system(environment.state_dir),
        )
    with (environment.state_dir / "migrate.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            if executor.loader.applied_migrations:
                _back_up(environment.state_dir)
            call_command("migrate", verbosity=0, interactive=False)
    connection.close()


def _back_up(state_dir: Path) -> None:
    """Keep a copy of the database as it was before a migration; an older copy is replaced."""
    connection.ensure_connection()
    with closing(sqlite3.connect(state_dir / BACKUP)) as copy:
        connection.connection.backup(copy)
