"""Writes the report: reads and packs each domain, and limits the size of the file."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from aggregator.dldb.conversion import SOURCE_NAME
from aggregator.errors import DatabaseError
from aggregator.html_report.content import (
    OP_DETAILS,
    ROWS,
    Part,
    choose_iterations,
    read_figures,
    read_iteration,
    read_objects,
    read_op_kernels,
    read_tables,
)
from aggregator.html_report.encoding import Strings, describe, pack
from aggregator.html_report.template import Page, block, require_page
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import ProfileDatabase, opened
from aggregator.tables.declared.addresses import TABLES
from aggregator.tables.declared.iterations import AGGREGATIONS
from aggregator.tables.declared.profile import (
    display_name,
    domains,
    iso_time,
    profile_details,
    profile_item,
)
from aggregator.texts import LANGUAGES, localized, say, use_language

FORMAT = 1
#: Small enough for a mail. Tables of single iterations take the remaining room. Unit: bytes.
_FILE_BYTES = 4_900_000
_ITERATIONS_BYTES = 2_500_000
_RESERVE_BYTES = 200_000  # For the texts that the iterations add to the first block. Unit: bytes.
_MAX_ITERATIONS = 200  # Each takes a few queries.
_TIME_LIMIT_S = 600.0

RowsListener = Callable[[int], None]


@dataclass(frozen=True)
class ReportRequest:
    """The subject of a report."""

    database: Path  # The file.
    aggr_id: int  # The aggregation.
    domains: tuple[str, ...] = ()  # NVTX domains, the first one is shown first; empty: all.
    profile_id: str = "report"  # The profile's id in the page's address.
    name: str = ""  # The profile's name; empty: its own.


def write_html_report(
    request: ReportRequest, stream: IO[bytes], on_rows: RowsListener = lambda _: None
) -> None:
    """Write the whole file.

    Raises:
        ReportPageMissingError: The frontend was not built.
        DatabaseError: The database cannot be read, or has no such aggregation or domain.
    """
    page = require_page()
    # With English as language, stored sentences would be plain texts, without their translations.
    not_english = use_language(LANGUAGES[-1])
    with not_english, opened(request.database, time_limit_s=_TIME_LIMIT_S) as database:
        report = _Report(request, database, on_rows)
        texts = {f"dlprof-said-{name}": pack(part) for name, part in report.localized_parts()}
        main = report.main_part()
        used = page.size + len(pack(main)) + sum(map(len, texts.values()))
        room = min(_FILE_BYTES - _RESERVE_BYTES - used, _ITERATIONS_BYTES)
        iterations = dict(report.iterations(main, max(0, room)))
        report.add_texts(main)
        name = report.name
    blocks = {"dlprof-report": pack(main)} | texts | iterations
    _write(page, name, [block(name, packed) for name, packed in blocks.items()], stream)


def _write(page: Page, name: str, blocks: list[str], stream: IO[bytes]) -> None:
    stream.write(page.before_title.encode())
    stream.write(html.escape(f"{name} - DLProf report").encode("utf-8", "replace"))
    stream.write(page.before_data.encode())
    for text in blocks:
        stream.write(text.encode("ascii"))
    stream.write(page.after_data.encode())


class _Report:
    def __init__(
        self, request: ReportRequest, database: ProfileDatabase, on_rows: RowsListener
    ) -> None:
        self.strings = Strings()
        self._request = request
        self._database = database
        self._on_rows = on_rows
        self.name = request.name or display_name(request.database, database)
        self._aggregation = self._find_aggregation()
        self._domains = self._find_domains()

    def localized_parts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the parts with sentences, in each language: the profile, panels and figures."""
        domains = {}
        for name in self._domains:
            data = self._data(name)
            domains[name] = {"objects": read_objects(data), "figures": read_figures(data)}
        part = {"profile": self._profile(), "aggregation": self._aggregation, "domains": domains}
        for language in LANGUAGES:
            yield language, localized(part, language)

    def main_part(self) -> dict[str, Any]:
        """Return the tables, but for those of single iterations."""
        main: dict[str, Any] = {
            "format": FORMAT,
            "rows": ROWS,
            "tables": {name: describe(spec) for name, spec in TABLES.items()}
            | {"op-details": describe(OP_DETAILS)},
            "domains": {name: self._domain(name) for name in self._domains},
        }
        self.add_texts(main)
        return main

    def add_texts(self, main: dict[str, Any]) -> None:
        """Add all texts of the tables read so far."""
        main["strings"] = self.strings.all()
        main["sentences"] = {name: self.strings.translations(name) for name in LANGUAGES}

    def iterations(self, main: dict[str, Any], room: int) -> Iterator[tuple[str, str]]:
        """Name and packed data of each iteration that there is room for, noted in ``main``."""
        for place, domain in enumerate(self._domains):
            share = room // (len(self._domains) - place)
            listed = main["domains"][domain]["iterations"]
            for iteration, packed in self._iterations_of(domain, share):
                listed[str(iteration)] = f"dlprof-iteration-{place}-{iteration}"
                room -= len(packed)
                yield listed[str(iteration)], packed

    def _iterations_of(self, domain: str, room: int) -> Iterator[tuple[int, str]]:
        data = self._data(domain)
        chosen = choose_iterations(data, self._aggregation["key_node"])
        for number, iteration in enumerate(chosen):
            packed = pack(self._counted(read_iteration(data, self.strings, iteration)))
            room -= len(packed)
            if number >= _MAX_ITERATIONS or room < 0:
                return
            yield iteration, packed

    def _domain(self, name: str) -> dict[str, Any]:
        data = self._data(name)
        return {
            "tables": self._counted(read_tables(data, self.strings)),
            "op_kernels": self._counted(read_op_kernels(data, self.strings)),
            "iterations": {},
        }

    def _counted(self, part: Part) -> dict[str, Any]:
        self._on_rows(part.rows)
        return part.data

    def _data(self, domain: str) -> AggregationData:
        return AggregationData(self._database, {"aggr_id": self._request.aggr_id, "domain": domain})

    def _profile(self) -> dict[str, Any]:
        request = self._request
        return {
            **profile_item(request.database, request.profile_id, self._database),
            **profile_details(self._database),
            "name": self.name,
            "is_stored": False,
            "domains": list(self._domains),
            "error": None,
            "converted_from": self._database.info.get(SOURCE_NAME),
            "conversion_ids": [],
            "can_reaggregate": False,
            "cannot_reaggregate_reason": say("A report holds one aggregation and adds none."),
        }

    def _find_aggregation(self) -> dict[str, Any]:
        for row in AggregationData(self._database, {}).rows(AGGREGATIONS):
            if row["id"] == self._request.aggr_id:
                return row | {"created_at": iso_time(row["created_at"], self._database)}
        raise DatabaseError(
            say("The profile has no aggregation {aggr_id}.", aggr_id=self._request.aggr_id)
        )

    def _find_domains(self) -> tuple[str, ...]:
        known = domains(self._database)
        for name in self._request.domains:
            if name not in known:
                raise DatabaseError(
                    say("The profile has no domain {wanted!r}.", wanted=name),
                    hint=say("It has {names}.", names=", ".join(known)),
                )
        return self._request.domains or tuple(known)
