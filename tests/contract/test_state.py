"""The viewer's own database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.db.migrations.executor import MigrationExecutor

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
