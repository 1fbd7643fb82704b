"""Write docs/dldb-schema.md: the views of a database, from the files that make them.

``--check`` writes nothing and ends with 1 if the page is out of date.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.write_cli_docs import write_pages

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/dldb-schema.md"
FOLDER = ROOT / "aggregator/dldb"
STATISTICS = {"sum": "Sum of the", "avg": "Mean", "min": "Smallest", "max": "Largest"}
SUMMARY_PARTS = {
    "all": "all",
    "tc": "those that use Tensor Cores",
    "eligible": "those that can use Tensor Cores but did not",
    "memory": "copies and sets",
    "other": "all others",
}
TABLE = re.compile(r"((?:^--[^\n]*\n)+)CREATE TABLE (\w+) \(\n(.*?)^\)", re.DOTALL | re.MULTILINE)
COLUMN = re.compile(r"((?:^ +--[^\n]*\n)+) +(\w+) ([A-Z]+)", re.MULTILINE)
UNIT = re.compile(r"^(.*?) ?Unit: ([\w ]+)\.$", re.DOTALL)
INTRODUCTION = """# Database views

`dlprof_dldb.sqlite` is one SQLite file. Query its **views**: the 23 views of DLProf 1.8.0 with the
same names and columns (added columns come last), and those of open-dlprof. The tables are internal
and may change between versions; `aggregator/dldb/schema.sql` describes them.

Times are integers in ns on the profile's own clock, percentages range from 0 to 100, and NULL means
unknown. `make docs` writes this page.
"""


HEADER = "\n\n| column | unit | meaning |\n|---|---|---|"


class UndocumentedColumnError(Exception):
    """A view or column of the schema has no meaning written down."""


def meaning_of(view: str, column: str, glossary: dict[str, Any]) -> str:
    """Return the meaning and unit of a view's column, ``<meaning>. Unit: <unit>.``."""
    own = glossary["only"].get(view, {}).get(column) or glossary["columns"].get(column)
    if own:
        return str(own)
    base, _, last = column.rpartition("_")
    if last in STATISTICS and base in glossary["metrics"]:
        return f"{STATISTICS[last]} {glossary['metrics'][base]}. Unit: ns."
    found = re.fullmatch(r"(?:ops|nodes|kernels)_(\w+?)_(gpu_time|cpu_time|count)", column)
    part = {"total": "all", "using_tc": "tc", "tc_eligible": "eligible"}
    if found and (kind := part.get(found[1], found[1])) in SUMMARY_PARTS:
        whole = SUMMARY_PARTS[kind]
        texts = {
            "gpu_time": f"GPU time of {whole}. Unit: ns.",
            "cpu_time": f"CPU time of {whole}. Unit: ns.",
            "count": f"Number of {whole}. Unit: count.",
        }
        return texts[found[2]]
    # A view that selects a column of a table need not describe it again.
    meanings = glossary["tables"].get(column, set())
    if len(meanings) == 1:
        return str(*meanings)
    raise UndocumentedColumnError(f"{view}.{column}")


def as_row(name: str, meaning: str) -> str:
    found = UNIT.match(" ".join(meaning.split()))
    if found is None:
        raise UndocumentedColumnError(f"{name}: no unit in {meaning!r}")
    unit = "" if found[2] == "none" else found[2]
    return f"| `{name}` | {unit} | {found[1]} |"


def view_parts() -> Iterator[str]:
    glossary = tomllib.loads((FOLDER / "view_columns.toml").read_text())
    glossary["tables"] = table_meanings()
    database = sqlite3.connect(":memory:")
    database.executescript((FOLDER / "schema.sql").read_text())
    database.executescript((FOLDER / "views.sql").read_text())
    views = database.execute("SELECT name FROM sqlite_master WHERE type = 'view'")
    for (view,) in views.fetchall():
        if view not in glossary["rows"]:
            raise UndocumentedColumnError(view)
        yield f"\n## {view}\n\n{glossary['rows'][view]}{HEADER}"
        for column in database.execute(f"PRAGMA table_info({view})"):
            yield as_row(column[1], meaning_of(view, column[1], glossary))
    database.close()


def as_text(comment: str) -> str:
    return " ".join(line.strip().removeprefix("--").strip() for line in comment.splitlines())


def table_meanings() -> dict[str, set[str]]:
    """Return the meanings of the columns of all tables, by name."""
    meanings: dict[str, set[str]] = {}
    for _, _, body in TABLE.findall((FOLDER / "schema.sql").read_text()):
        for text, name, _ in COLUMN.findall(body):
            meanings.setdefault(name, set()).add(as_text(text))
    return meanings


def check_tables() -> None:
    """Check that every table and column of the schema says what it means, with a unit.

    Raises:
        UndocumentedColumnError: One does not.
    """
    for _, table, body in TABLE.findall((FOLDER / "schema.sql").read_text()):
        columns = {
            line.split()[0] for line in body.splitlines() if re.match(r" {4}[a-z_]+ [A-Z]", line)
        }
        documented = COLUMN.findall(body)
        if missing := columns - {name for _, name, _ in documented}:
            raise UndocumentedColumnError(f"{table}: {sorted(missing)}")
        for text, name, _ in documented:
            as_row(name, as_text(text))


def page() -> str:
    check_tables()
    lines = [INTRODUCTION, *view_parts()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write_pages([(PAGE, page())]))
