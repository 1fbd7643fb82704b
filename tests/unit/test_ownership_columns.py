"""What the host did, from the tables of an import before they are a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.dldb.event_reader import KeptTables
from aggregator.dldb.writer import Table
from aggregator.events.store import EventStore
from aggregator.importing.imported import ImportedProfile
from aggregator.metrics.owners import Ownership, Span, read_all_ownership
from aggregator.metrics.ownership_columns import read_host
from aggregator.metrics.ownership_host import FIRST_CALL
from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress


def test_asynchronous_copies_block_if_their_memory_is_pageable() -> None:
    start, length = np.array([10, 20, 30]), np.array([5, 5, 5])
    calls: dict[str, Any] = {
        "name": np.array([1, 1, 2]),
        "op": 1,
        "start": start,
        "duration": length,
        "thread": 1,
    }
    copies: dict[str, Any] = {"op": 1, "is_copy": True, "host_kind": np.array([0, 1]), "device": 1}
    copies |= {"stream_id": 7, "process": 1, "copy_kind": 1, "bytes": 4}
    times = {"start": start[:2] + 3, "duration": length[:2]}
    launched = {"api_start": start[:2], "api_duration": length[:2]}
    names = ["cudaMemcpyAsync_v3020", "cudaStreamSynchronize"]
    kept = KeptTables()
    tables = [
        Table("processes", {"id": [1], "pid": [7]}),
        Table("threads", {"id": [1], "tid": [7], "process": [1]}),
        Table("api_names", {"id": [1, 2], "name": names}),
        Table("memory_ops", {**copies, **times, **launched}),
        Table("api_calls", calls),
    ]
    assert len(list(kept.keep(tables))) == len(tables)

    store = EventStore(kept)
    found = read_host(store, store.work(), store.calls())

    assert found.host.events.start_ns.tolist() == [10, 30]
    assert (found.host.events.reason - FIRST_CALL).tolist() == [0, 1]
    assert found.reasons[FIRST_CALL:] == ("cudaMemcpyAsync", "cudaStreamSynchronize")


def test_column_of_an_import_is_forgotten_once_it_is_read() -> None:
    kept = KeptTables()
    table = Table("named_ranges", {"name": [1], "process": [1], "start": [5], "stop": [9]})
    assert list(kept.keep([table])) == [table]

    assert [int(column[0]) for column in kept.integers("named_ranges", ("start", "stop"))] == [5, 9]
    with pytest.raises(KeyError):
        kept.integers("named_ranges", ("start",))


def test_import_drops_its_events_before_owners_are_found(
    profile: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    drop, read = ImportedProfile.release_events, read_all_ownership

    def drop_events(data: ImportedProfile) -> None:
        drop(data)
        seen.append("events" if hasattr(data, "work") else "no events")

    def read_owners(store: EventStore, spans: Sequence[Span]) -> list[Ownership | None]:
        seen.append("owners")
        return read(store, spans)

    monkeypatch.setattr(ImportedProfile, "release_events", drop_events)
    monkeypatch.setattr("aggregator.dldb.import_writer.read_all_ownership", read_owners)
    source, database = profile("nvtx_domains.sqlite"), tmp_path / "database.sqlite"
    import_profile(ImportOptions(source, database), NullProgress())

    assert seen == ["no events", "owners"]
