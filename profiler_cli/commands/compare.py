"""``dlprof compare``: why the step changed between two runs, and how certain that is."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from aggregator.compare.document import to_document
from aggregator.compare.markdown import to_markdown
from aggregator.compare.page import to_html
from aggregator.compare.result import Comparison, Verdict
from aggregator.compare.sides import Source, compare_files
from aggregator.compare.text import to_text
from aggregator.errors import UsageError
from aggregator.system.plain_text import escape_control_characters
from aggregator.system.progress import NullProgress
from profiler_cli.commands.junit import to_junit
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import SubcommandParser

EXIT_REGRESSION: Final = 10
EXIT_CANNOT_TELL: Final = 14
_EPILOG: Final = (
    "A capture is FILE, FILE@AGGREGATION or FILE@FIRST-LAST (iterations); without a choice the "
    "steady range is compared. Exit codes: 0 no regression; 10 the new side is slower by more than "
    "--max-slowdown; 14 cannot tell; 2 usage; 4 a profile and 5 a database cannot be used."
)


FORMATS: Final[dict[str, Callable[[Comparison, Fraction], str]]] = {
    "text": lambda comparison, _: to_text(comparison),
    "json": lambda comparison, _: json.dumps(to_document(comparison), indent=2) + "\n",
    "markdown": lambda comparison, _: to_markdown(comparison),
    "html": lambda comparison, _: to_html(comparison),
    "junit": to_junit,
}
"""Each output format and the function that writes it; the slowdown that is no regression yet."""
SUFFIXES: Final = {
    ".txt": "text",
    ".json": "json",
    ".md": "markdown",
    ".html": "html",
    ".xml": "junit",
}
"""The format of a report by the suffix of its file."""


def run_compare(words: Sequence[str]) -> int:
    """Run ``dlprof compare`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    base, new = _sides(options)
    comparison = compare_files(base, new, NullProgress(), keep=True)
    output = FORMATS[options.format](comparison, options.max_slowdown)
    for report in options.report:
        text = FORMATS[SUFFIXES[report.suffix]](comparison, options.max_slowdown)
        write_report(report, text)
    print(escape_control_characters(output), end="")
    return _exit_code(comparison, options.max_slowdown)


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof compare",
        description="Compare two runs: what each nanosecond of the step went to, and what changed.",
        epilog=_EPILOG,
    )
    parser.add(
        "captures CAPTURE",
        "two captures, the base first: anything that dlprof --database takes",
        nargs="*",
    )
    parser.add("--base A1,A2", "captures of the base, instead")
    parser.add("--new B1,B2", "captures of the new side, instead")
    add_slowdown(parser)
    parser.add("--format", "output (default: text)", choices=tuple(FORMATS), default="text")
    add_report(parser, SUFFIXES)
    return parser


def add_slowdown(parser: SubcommandParser) -> None:
    """Add ``--max-slowdown``."""
    parser.add(
        "--max-slowdown PCT",
        "slowdown that is no regression yet (default: 3%%)",
        type=parse_percent,
        default=Fraction(3, 100),
    )


def add_report(parser: SubcommandParser, suffixes: Iterable[str]) -> None:
    """Add ``--report``: files, whose suffixes name their formats."""

    def read(text: str) -> Path:
        path = Path(text)
        if path.suffix not in suffixes:
            raise argparse.ArgumentTypeError(
                f"the file '{text}' needs one of the suffixes {', '.join(suffixes)}"
            )
        return path

    meaning = f"also write a report in the format of its suffix: {', '.join(suffixes)}"
    parser.add("--report FILE", meaning, action="append", default=[], type=read)


def write_report(path: Path, text: str) -> None:
    """Write a report.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The report '{path}' cannot be written: {error.strerror}.") from error


def parse_percent(text: str) -> Fraction:
    """Read a share as ``3%`` or ``3``.

    Raises:
        ArgumentTypeError: It is none.
    """
    try:
        # Exponents are refused: 1e999999999 would be written out.
        value = Fraction(-1) if "e" in text.lower() else Fraction(text.removesuffix("%")) / 100
    except (ValueError, ZeroDivisionError):
        value = Fraction(-1)
    if value < 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no percentage: write 3%")
    return value


def _sides(options: argparse.Namespace) -> tuple[list[Source], list[Source]]:
    if options.base is None and options.new is None and len(options.captures) == 2:
        return [Source.parse(options.captures[0])], [Source.parse(options.captures[1])]
    if options.base is None or options.new is None or options.captures:
        raise UsageError(
            "Two captures are needed.",
            hint="Example: dlprof compare before.sqlite after.sqlite, or --base=a1,a2 --new=b1,b2",
        )
    return _listed(options.base), _listed(options.new)


def _listed(names: str) -> list[Source]:
    return [Source.parse(name.strip()) for name in names.split(",") if name.strip()]


def _exit_code(comparison: Comparison, max_slowdown: Fraction) -> int:
    verdict = comparison.judgement.verdict
    if verdict is Verdict.CANNOT_TELL:
        return EXIT_CANNOT_TELL
    is_regression = verdict is Verdict.SLOWER and comparison.slowdown > max_slowdown
    return EXIT_REGRESSION if is_regression else EXIT_DONE
