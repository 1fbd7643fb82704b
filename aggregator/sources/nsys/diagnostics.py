"""Warnings of Nsight Systems about a recording: events lost, dropped or never written.

It exports the rest and exits with success; the run then looks as if it had left the GPU idle.
dlprof's own collector writes such rows too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from aggregator.profile.profile import ProfileWarning
from aggregator.sources.nsys import schema as names
from aggregator.system.sqlite_uri import lenient_text
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aggregator.sources.nsys.schema import Schema

_ERROR: Final = 3
"""``severity`` of an error, of which it has several that concern CPU samples only."""
_FAILED: Final = "Error when processing events"
_INCOMPLETE: Final = "Not all CUDA events might have been collected"
_NOT_STARTED: Final = "CUDA profiling might have not been started correctly"
_COUNTED: Final = re.compile(
    r"Number of (?:CUPTI events (produced)|CUDA events (collected)):\s*(\d+)"
)
_DROPPED: Final = re.compile(r"Number of (?:incomplete )?(?:CUPTI|CUDA) events dropped:\s*(\d+)")


OWN_DROPPED: Final = "CUPTI dropped records: "
OWN_UNFINISHED: Final = "Work that the GPU had not finished: "
OWN_INCOMPLETE: Final = "The process did not complete its records"
OWN_INTERRUPTED: Final = "NVTX events of handlers of signals: "
OWN_ERROR: Final = "CUPTI: "
"""How the texts of dlprof's own collector begin."""


def read_diagnostics(schema: Schema) -> list[ProfileWarning]:
    """Return the warnings about missing records, and the recorder's own errors."""
    columns = schema.columns(names.DIAGNOSTICS)
    if not {"text", "severity"} <= columns:
        return []
    process = '"globalPid"' if "globalPid" in columns else "NULL"
    query = (
        f"SELECT severity, {process}, text FROM {schema.table(names.DIAGNOSTICS)}"
        " WHERE text IS NOT NULL ORDER BY timestamp, text"
    )
    with schema.connect() as connection:
        connection.text_factory = lenient_text
        rows = [(row[0], row[1], str(row[2])) for row in connection.execute(query)]
    own = _own_warnings([text for _, _, text in rows])
    if own:
        return own
    texts = [text for _, _, text in rows]
    not_started = {pid for _, pid, text in rows if text.startswith(_NOT_STARTED)}
    incomplete = {pid for _, pid, text in rows if text.startswith(_INCOMPLETE)} - not_started
    found = _lost(texts)
    if dropped := sum(int(match[1]) for text in texts if (match := _DROPPED.match(text))):
        message = say(
            "CUDA events were dropped by Nsight Systems: the GPU had not finished them when the"
            " program or the capture ended."
        )
        found.append(ProfileWarning("DROPPED_EVENTS", message, dropped))
    if incomplete:
        message = say(
            "processes ended before all of their CUDA events were written: kernels, copies and"
            " calls may be missing. Did the program crash?"
        )
        found.append(ProfileWarning("INCOMPLETE_EVENTS", message, len(incomplete)))
    return found + _errors(text for severity, _, text in rows if severity == _ERROR)


def _own_warnings(texts: list[str]) -> list[ProfileWarning]:
    """Warnings about records that dlprof's own collector lacks; none for another recorder."""
    found = []
    if dropped := _sum_after(OWN_DROPPED, texts):
        message = say(
            "CUPTI dropped records, because its buffers were full: kernels, copies and calls are"
            " missing."
        )
        found.append(ProfileWarning("DROPPED_EVENTS", message, dropped))
    if unfinished := _sum_after(OWN_UNFINISHED, texts):
        message = say(
            "kernels, copies and sets are left out: the GPU had not finished them when the program"
            " or the capture ended."
        )
        found.append(ProfileWarning("UNFINISHED_WORK", message, unfinished))
    if incomplete := sum(text == OWN_INCOMPLETE for text in texts):
        message = say(
            "processes did not complete their records: what they did in their last second may be"
            " missing. Were they killed, or did they crash?"
        )
        found.append(ProfileWarning("INCOMPLETE_EVENTS", message, incomplete))
    if interrupted := _sum_after(OWN_INTERRUPTED, texts):
        message = say(
            "NVTX events are left out: a signal handler of the program wrote them while its thread"
            " was writing another one."
        )
        found.append(ProfileWarning("INTERRUPTED_RANGES", message, interrupted))
    errors = [text.removeprefix(OWN_ERROR) for text in texts if text.startswith(OWN_ERROR)]
    for line in dict.fromkeys(errors):
        message = say("CUPTI reported: {text}", text=line)
        found.append(ProfileWarning("RECORDER_ERROR", message, errors.count(line)))
    return found


def _sum_after(prefix: str, texts: list[str]) -> int:
    found = (text.removeprefix(prefix) for text in texts if text.startswith(prefix))
    return sum(int(number) for number in found if number.isdecimal() and len(number) < 18)


def _lost(texts: list[str]) -> list[ProfileWarning]:
    """Return a warning if Nsight Systems failed to import parts of the recording."""
    failures = sum(text.startswith(_FAILED) for text in texts)
    if not failures:
        return []
    counted = [match for text in texts if (match := _COUNTED.match(text))]
    produced = sum(int(match[3]) for match in counted if match[1])
    collected = sum(int(match[3]) for match in counted if match[2])
    text = say(
        "Nsight Systems failed to read parts of its own recording: kernels, calls and ranges are"
        " missing ({collected} of {produced} CUDA events are there). Record a shorter part of the"
        " run, after compilation (--delay), or use another version of Nsight Systems.",
        collected=collected,
        produced=produced,
    )
    share = (produced - collected) / produced if 0 < collected < produced else None
    return [ProfileWarning("LOST_EVENTS", text, failures, share)]


def _errors(texts: Iterable[str]) -> list[ProfileWarning]:
    """Return the recorder's errors in its own words, each once."""
    counts: dict[str, int] = {}
    for text in texts:
        if not text.startswith(_FAILED):
            line = text.strip().splitlines()[0] if text.strip() else text
            counts[line] = counts.get(line, 0) + 1
    return [
        ProfileWarning("RECORDER_ERROR", say("Nsight Systems reported: {text}", text=line), count)
        for line, count in counts.items()
    ]
