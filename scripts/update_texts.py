"""Update aggregator/texts/zh.po from the sentences in the code, and list what needs a translator.

New sentences are added without a translation. A reworded sentence keeps its old translation and is
marked ``fuzzy``, with the old English above it: correct the translation and delete the mark.
``--accept`` deletes all marks, for when the translations are still right. Sentences that are no
longer in the code are removed. Until then users read those sentences in English. ``--list`` writes
nothing: ``make release`` shows with it what is missing.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
CATALOG = ROOT / "aggregator/texts/zh.po"
PACKAGES = ("aggregator", "viewer")
PAGE = ROOT / "frontend/src"
PAGE_CONTEXT = "page"
"""Context of what the page says: its short words may mean something else than the engine's."""
PAGE_SENTENCE = re.compile(r"""(?<![\w.])t\(\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
VIEWS = "aggregator/dldb/views.sql"
#: A text of three words or more that a view chooses.
VIEW_SENTENCE = re.compile(r"(?:THEN|ELSE) '([^' ]+(?: [^' ]+){2,})'")


def sentences() -> Catalog:
    """Return every sentence in the code, with the files that contain it."""
    found = Catalog()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            # Babel's tokenizer is slow; most modules say nothing.
            if b"say(" not in (source := path.read_bytes()):
                continue
            for _, sentence, _, _ in extract("python", BytesIO(source), keywords={"say": None}):
                found.add(sentence, locations=[(path.relative_to(ROOT).as_posix(), 0)])
    for sentence in VIEW_SENTENCE.findall((ROOT / VIEWS).read_text(encoding="utf-8")):
        found.add(sentence, locations=[(VIEWS, 0)])
    for path in sorted(PAGE.rglob("*.ts*")):
        for literal in PAGE_SENTENCE.findall(path.read_text(encoding="utf-8")):
            place = (path.relative_to(ROOT).as_posix(), 0)
            found.add(ast.literal_eval(literal), locations=[place], context=PAGE_CONTEXT)
    return found


def read_catalog() -> Catalog:
    """Return the translations as they are stored."""
    with CATALOG.open("rb") as file:
        return read_po(file, locale="zh", domain="texts")


def untranslated(catalog: Catalog) -> list[str]:
    """Name the sentences that users read in English, and why."""
    messages = [message for message in catalog if message.id]
    missing = [f"no translation: {entry.id}" for entry in messages if not entry.string]
    return missing + [f"fuzzy: {entry.id}" for entry in messages if entry.string and entry.fuzzy]


def main() -> int:
    """Return the rewrite the catalog, and print what needs a translator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept", action="store_true", help="the fuzzy translations are right")
    parser.add_argument("--list", action="store_true", help="write nothing")
    options = parser.parse_args()
    catalog = read_catalog()
    catalog.update(sentences(), update_creation_date=False)
    for message in catalog if options.accept else ():
        message.flags.discard("fuzzy")
        message.previous_id = []
    if not options.list:
        with CATALOG.open("wb") as file:
            write_po(
                file,
                catalog,
                width=0,
                sort_by_file=True,
                ignore_obsolete=True,
                include_previous=True,
                include_lineno=False,
            )
    print("".join(f"{line}\n" for line in untranslated(catalog)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
