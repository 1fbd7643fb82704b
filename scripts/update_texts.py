"""Update aggregator/texts/zh.po from the sentences in the code, and list what needs a translator.

New sentences are added without a translation. A reworded sentence keeps its old translation and is
marked ``fuzzy``, with the old English above it: correct the translation and delete the mark.
``--accept`` deletes all marks, for when the translations are still right. Sentences that are no
longer in the code are removed. Exits with 1 while any sentence is new or fuzzy.
"""

from __future__ import annotations

import argparse
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
    return found


def read_catalog() -> Catalog:
    """Return the translations as they are stored."""
    with CATALOG.open("rb") as file:
        return read_po(file, locale="zh", domain="texts")


def main() -> int:
    """Rewrite the catalog; return 1 if a sentence needs a translator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept", action="store_true", help="the fuzzy translations are right")
    accept = parser.parse_args().accept
    catalog = read_catalog()
    catalog.update(sentences(), update_creation_date=False)
    for message in catalog if accept else ():
        message.flags.discard("fuzzy")
        message.previous_id = []
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
    messages = [message for message in catalog if message.id]
    missing = [message.id for message in messages if not message.string]
    fuzzy = [message.id for message in messages if message.string and message.fuzzy]
    for label, listed in (("no translation", missing), ("fuzzy", fuzzy)):
        for sentence in listed:
            print(f"{label}: {sentence}")
    return 1 if missing or fuzzy else 0


if __name__ == "__main__":
    sys.exit(main())
