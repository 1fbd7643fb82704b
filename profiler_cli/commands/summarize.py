"""``dlprof summarize``: write small summaries of the ranks in databases and profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from aggregator.errors import UsageError
from aggregator.jobs.executors import open_executor, run_parts
from aggregator.ranks.pool import worker_count
from aggregator.ranks.summary_schema import SUFFIX
from aggregator.system.plain_text import escape_control_characters
from aggregator.system.remote_files import is_url, matching_urls, shown_url
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import AGGREGATION, SubcommandParser, rank_files
from profiler_cli.options.values import whole_number
from profiler_cli.outputs import display, output_folder

_DESCRIPTION: Final = (
    "Write a summary of each file: one row for each rank and step, about a kilobyte, in a Parquet "
    "file. dlprof stragglers finds the slow rank of a job from a folder of summaries."
)
_USUAL_NAMES: Final = ("dlprof_dldb", "nsys_profile")


def run_summarize(words: Sequence[str]) -> int:
    """Run ``dlprof summarize`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    sources = [file for text in options.files for file in _sources(text)]
    targets = _targets(sources, options.output)
    if options.first_rank is not None and len(sources) > 1:
        raise UsageError("--first_rank numbers the ranks of one file.", hint="Name one file.")
    for target in targets:
        if target.exists() and not options.force:
            raise UsageError(
                f"'{display(target)}' exists already.", hint="Give another --output, or --force."
            )
    requests = [
        {
            "source": source,
            "target": str(target.absolute()),
            "aggregation": options.aggregation,
            "first_rank": options.first_rank,
            "overwrite": options.force,
        }
        for source, target in zip(sources, targets, strict=True)
    ]
    workers = options.workers or worker_count([Path(source) for source in sources])
    with output_folder(targets[0].parent), open_executor(options.executor, workers) as executor:
        for target, result in zip(targets, run_parts(executor, "summarize", requests), strict=True):
            print(escape_control_characters(_line(target, result)), flush=True)
    return EXIT_DONE


def _sources(text: str) -> Iterator[str]:
    if is_url(text):
        yield from matching_urls(text)
    else:
        yield from (str(path.absolute()) for path in rank_files(text))


def _targets(sources: Sequence[str], output: Path | None) -> list[Path]:
    """Return the summary of each file: beside it, in a folder, or the file that was named."""
    if output is not None and output.suffix == ".parquet" and len(sources) == 1:
        return [output]
    targets = []
    for source in sources:
        path = Path(shown_url(source)) if is_url(source) else Path(source)
        folder = Path() if is_url(source) else path.parent
        stem = path.name.removesuffix(path.suffix)
        if output is not None and stem.startswith(_USUAL_NAMES):
            stem = path.parent.name or stem  # rank3/dlprof_dldb.sqlite
        targets.append((output or folder) / f"{stem}{SUFFIX}")
    if len(set(targets)) < len(targets):
        raise UsageError(
            "Several files would have the same summary.", hint="Summarize them one by one, with -o."
        )
    return targets


def _line(target: Path, result: dict[str, Any]) -> str:
    rows, size = int(result["rows"]), int(result["bytes"])
    each = size / max(rows, 1) / 1000
    return f"Wrote {display(target)}: {rows} ranks and steps, {each:.1f} kB each."


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof summarize",
        description=_DESCRIPTION,
        epilog="Exit codes: 0 done; 2 usage; 3 the executor cannot be used; 4 a profile and 5 a "
        "database cannot be used, or a summary cannot be written.",
    )
    parser.add(
        "files FILE",
        "DLProf databases, exports, reports or traces, patterns in quotes, or URLs",
        nargs="+",
    )
    parser.add(
        "-o, --output PATH",
        "the summary (NAME.parquet), or a folder (default: beside each file)",
        type=Path,
    )
    parser.add(
        "--first_rank N",
        "number in the job of the first rank of FILE (default: as recorded, else by names)",
        type=whole_number().parse,
    )
    parser.add(*AGGREGATION)
    parser.add(
        "--executor NAME",
        "where files are read: local (default), celery, dask[:ADDRESS]",
        default="local",
    )
    parser.add(
        "--workers N", "files read at the same time on this machine", type=whole_number().parse
    )
    parser.add("-f, --force", "replace existing summaries")
    return parser
