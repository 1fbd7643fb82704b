"""The viewer's own database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from viewer.state import prepare as state
from viewer.state.models import StoredProfile


@pytest.mark.django_db(transaction=True)
def test_the_state_is_copied_before_a_migration(
    tmp_path: Path, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, state_dir=tmp_path)
    StoredProfile.objects.create(id="a", path="/a.sqlite", name="Mine")
    monkeypatch.setattr(MigrationExecutor, "migration_plan", lambda *_: [("a migration", False)])
    monkeypatch.setattr(state, "call_command", lambda *_, **__: None)

    state.prepare_state()

    with closing(sqlite3.connect(tmp_path / state.BACKUP)) as copy:
        assert copy.execute("SELECT name FROM jobs_storedprofile").fetchall() == [("Mine",)]


@pytest.mark.django_db
def test_state_of_the_nine_migrations_before_needs_none() -> None:
    recorder = MigrationRecorder(connection)
    recorder.migration_qs.filter(app="jobs", name="0001_state").delete()

    executor = MigrationExecutor(connection)

    assert ("jobs", "0009_bare_step") in executor.loader.applied_migrations
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []
