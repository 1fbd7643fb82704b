"""What Nsight Systems says of its own recording: the parts that it lost."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

from aggregator.profile import ProfileWarning
from aggregator.sources.nsys_schema import Schema
from aggregator.sources.sqlite_files import READ_ERRORS, corrupt
from aggregator.sqlite_uri import lenient_text, read_only_uri
from aggregator.texts import say

TABLE = "DIAGNOSTIC_EVENT"
_FAILED = "Error when processing events"
_COUNTED = re.compile(r"Number of (?:CUPTI events (produced)|CUDA events (collected)):\s*(\d+)")


def lost_events(schema: Schema) -> list[ProfileWarning]:
    """A warning if the importer of Nsight Systems failed on parts of the recording.

    It then exports what it has and ends with success: kernels, calls and ranges are missing, and
    what remains looks like a run that left the GPU alone.
    """
    if "text" not in schema.columns(TABLE):
        return []
    query = (
        f"SELECT text FROM {schema.table(TABLE)}"
        f" WHERE text LIKE '{_FAILED}%' OR text LIKE 'Number of CU%'"
    )
    try:
        with closing(sqlite3.connect(read_only_uri(schema.path), uri=True)) as connection:
            connection.text_factory = lenient_text
            texts = [str(row[0]) for row in connection.execute(query)]
    except READ_ERRORS as error:
        raise corrupt(schema.path, error) from error
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
    return [ProfileWarning("LOST_EVENTS", text, failures)]
