"""Write the tables of options in docs/cli.md from the commands' own tables.

``--check`` writes nothing and ends with 1 if the file is out of date.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from profiler_cli.options.declared import GROUPS, Option

PAGE = Path(__file__).resolve().parent.parent / "docs/cli.md"
REGION = re.compile(r"(<!-- options -->\n).*?(<!-- /options -->)", re.DOTALL)


def as_row(option: Option) -> str:
    spellings = ", ".join(f"`{word}`" for word in option.spellings)
    value = f"`{option.kind.metavar}`" if option.kind is not None else ""
    cells = (spellings, value, option.default, option.help)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def as_tables() -> str:
    parts = []
    for title, options in GROUPS.items():
        rows = "\n".join(as_row(option) for option in options)
        parts.append(
            f"\n### {title}\n\n| option | value | default | what |\n|---|---|---|---|\n{rows}\n"
        )
    return "".join(parts) + "\n"


def updated_page() -> str:
    return REGION.sub(lambda found: f"{found[1]}{as_tables()}{found[2]}", PAGE.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check_only = parser.parse_args().check
    page = updated_page()
    if page == PAGE.read_text():
        return 0
    if check_only:
        print("docs/cli.md is out of date: run `make docs`", file=sys.stderr)
        return 1
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
