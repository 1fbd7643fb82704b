"""Every switch of ``dlprof``: one table, from which the parser and ``--help`` are made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.options import Mode
from profiler_cli.option_values import (
    Boolean,
    Choice,
    Seconds,
    Text,
    Tokens,
    ValueKind,
    WholeNumber,
    Words,
)

REPORT_TOKENS: Final = (
    "summary",
    "detail",
    "kernel",
    "iteration",
    "tensor",
    "op_type",
    "group_node",
    "expert_systems",
)
# Reports that DLProf did not have: `all` goes on meaning DLProf's.
HTML_REPORT: Final = "html"
ADVICE_REPORT: Final = "advice"
EXTRA_REPORT_TOKENS: Final = (ADVICE_REPORT, HTML_REPORT)
# The names that the report files carry, accepted as tokens too.
REPORT_ALIASES: Final = {
    "detailed": "detail",
    "tensor_core": "tensor",
    "group_op": "group_node",
}
FORMATS: Final = ("csv", "json")
VERBOSITIES: Final = ("quiet", "minimal", "normal", "detailed", "diagnostic")
DEFAULT_PROFILE_NAME: Final = "dlprof"

REPORTS_KIND: Final = Tokens(
    "report",
    REPORT_TOKENS,
    REPORT_ALIASES,
    accepts_all=True,
    metavar="REPORT[,REPORT...]",
    extra=EXTRA_REPORT_TOKENS,
)
FORMATS_KIND: Final = Tokens("report format", FORMATS, {}, accepts_all=True, metavar="csv,json")


@dataclass(frozen=True)
class Options:
    """What the user asked for; the defaults are those of ``--help``.

    Attributes:
        database: The Nsight Systems export or DLProf database to aggregate, or several.
        workers: Rank files read at the same time; None: as cores, memory and sizes allow.
        iter_start: First iteration, inclusive; None: the first.
        iter_stop: Last iteration, inclusive; None: the last found.
        profile_name: As given; empty: none was given.
        domains: Custom NVTX domains to report on; empty: all.
        delay: Seconds.
        duration: Seconds; None: the whole application.
        application: The words of the profiled command.
    """

    help: bool = False
    version: bool = False
    debug: bool = False
    force: bool = False
    verbosity: str = "normal"
    mode: Mode = Mode.AUTO
    database: str = ""
    workers: int | None = None
    nsys_base_name: str = "nsys_profile"
    nsys_opts: str = "-t cuda,nvtx -s none"
    nsys_path: str = ""
    delay: float = 0.0
    duration: float | None = None
    detailed_mode: bool = True
    nsys_profile_range: bool = False
    key_node: str = ""
    iter_start: int | None = None
    iter_stop: int | None = None
    output_path: Path = Path()
    profile_name: str = ""
    reports: tuple[str, ...] = ()
    formats: tuple[str, ...] = ("csv",)
    domains: tuple[str, ...] = ()
    extended: bool = False
    gpu_peaks: str = ""
    dump_model_data: bool = False
    tb_dir: str = "event_files"
    suppress_tb_files: bool = False
    graphdef: str = ""
    application: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Option:
    """One row of the table.

    Attributes:
        name: Field of ``Options``.
        spellings: Every accepted spelling; the first long one is the name in messages.
        kind: What its value may be; None: the switch takes no value.
        help: One or two sentences for ``--help``.
        default: The default in words; empty: there is nothing to say.
        needs_application: It only matters while an application is profiled.
        is_retired: Accepted so that old command lines work; nothing depends on it any more.
    """

    name: str
    spellings: tuple[str, ...]
    kind: ValueKind | None
    help: str
    default: str = ""
    needs_application: bool = False
    is_retired: bool = False

    @property
    def title(self) -> str:
        """The spelling that messages use."""
        return next(word for word in self.spellings if word.startswith("--"))


GENERAL: Final = (
    Option("help", ("-h", "--help"), None, "Show this help and exit."),
    Option("version", ("-V", "--version"), None, "Show the version and exit."),
    Option(
        "force",
        ("-f", "--force"),
        Boolean(),
        "Overwrite existing databases and reports. Otherwise new ones are written beside them, "
        "with _1, _2, ... in their names.",
        "false",
    ),
    Option(
        "verbosity",
        ("-v", "--verbosity"),
        Choice(VERBOSITIES),
        "How much to say while working. quiet shows errors only, minimal results only.",
        "normal",
    ),
    Option("debug", ("--debug",), None, "Show the full traceback of an error."),
)

INPUT: Final = (
    Option(
        "database",
        ("--database", "--nsys_database"),
        Text("FILE[,FILE...]"),
        "Aggregate this Nsight Systems export (SQLite) or DLProf database instead of profiling "
        "an application. Several files, or a pattern in quotes ('rank*.sqlite'), are the ranks of "
        "one job: they become one database. Application words after it are ignored.",
        "none",
    ),
    Option(
        "workers",
        ("--workers",),
        WholeNumber(at_least=1),
        "Rank files that are read at the same time.",
        "by cores and memory",
    ),
    Option(
        "mode",
        ("-m", "--mode"),
        Choice(tuple(mode.value for mode in Mode)),
        "The framework whose ranges are read.",
        "auto",
    ),
)

CAPTURE: Final = (
    Option(
        "nsys_base_name",
        ("--nsys_base_name", "--nsys_base_output_filename"),
        Text("NAME"),
        "Name of the Nsight Systems files, without extension.",
        "nsys_profile",
        needs_application=True,
    ),
    Option(
        "nsys_opts",
        ("--nsys_opts", "--nsys_options"),
        Text("OPTIONS"),
        "Options for nsys, in quotes.",
        "-t cuda,nvtx -s none",
        needs_application=True,
    ),
    Option(
        "nsys_path",
        ("--nsys_path",),
        Text("FILE"),
        "The nsys program to run.",
        "nsys on PATH",
        needs_application=True,
    ),
    Option(
        "delay",
        ("-y", "--delay"),
        Seconds(),
        "Start profiling after this many seconds.",
        "0",
        needs_application=True,
    ),
    Option(
        "duration",
        ("-d", "--duration"),
        Seconds(above_zero=True),
        "Profile for this many seconds, then end the application.",
        "the whole application",
        needs_application=True,
    ),
    Option(
        "nsys_profile_range",
        ("--nsys_profile_range",),
        Boolean(),
        "Profile only between profiler start and stop calls in the script.",
        "false",
        needs_application=True,
    ),
)

AGGREGATION: Final = (
    Option(
        "key_node",
        ("--key_node", "--key_op"),
        Text("OP"),
        "The op or range that marks the end of an iteration: an Op ID, an op name, or a range "
        "name with # for its counter, as in 'iteration #'.",
        "chosen from the profile",
    ),
    Option(
        "iter_start",
        ("--iter_start",),
        WholeNumber(),
        "First iteration to aggregate, inclusive.",
        "0",
    ),
    Option(
        "iter_stop",
        ("--iter_stop",),
        WholeNumber(),
        "Last iteration to aggregate, inclusive.",
        "the last found",
    ),
    Option(
        "gpu_peaks",
        ("--gpu_peaks",),
        Text("NAME=VALUE[,NAME=VALUE...]"),
        "Peak rates of the GPU in place of those known of it, as in "
        "float16=989.4,bandwidth=4800 (TFLOP/s and GB/s).",
        "those of the GPU, or of DLPROF_GPU_PEAKS",
    ),
)

OUTPUT: Final = (
    Option(
        "output_path",
        ("--output_path",),
        Text("FOLDER"),
        "Folder for all files that are written; created if missing. %q{RANK} in it and in the "
        "other names of what is written stands for the value of that environment variable.",
        "./",
    ),
    Option(
        "profile_name",
        ("--profile_name", "--base_name"),
        Text("NAME"),
        "Name of the profile: shown in the viewer, first part of report file names, where spaces "
        "become _.",
        DEFAULT_PROFILE_NAME,
    ),
    Option(
        "reports",
        ("--reports", "--report"),
        REPORTS_KIND,
        f"Reports to write: all, {', '.join(REPORT_TOKENS)}; besides these "
        f"{', '.join(EXTRA_REPORT_TOKENS)}.",
        "none",
    ),
    Option(
        "formats",
        ("--formats", "--file_formats"),
        FORMATS_KIND,
        "File formats of the reports.",
        "csv",
    ),
    Option(
        "domains",
        ("--domains",),
        Words("DOMAIN[,DOMAIN...]"),
        "Custom NVTX domains that get reports of their own.",
        "all",
    ),
    Option(
        "detailed_mode",
        ("--detailed_mode",),
        Boolean(),
        "TensorFlow only: show data types of the ops.",
        "true",
    ),
    Option(
        "extended",
        ("--extended",),
        Boolean(),
        "Add columns to the reports that DLProf did not have, at their ends.",
        "false",
    ),
    Option(
        "dump_model_data",
        ("--dump_model_data",),
        Boolean(),
        "Also write the raw correlated data as JSON.",
        "false",
    ),
)

RETIRED: Final = (
    Option(
        "tb_dir",
        ("--tb_dir",),
        Text("FOLDER"),
        "Folder for TensorBoard event files, which are no longer written.",
        "event_files",
        is_retired=True,
    ),
    Option(
        "suppress_tb_files",
        ("-b", "--suppress_tb_files"),
        Boolean(),
        "Write no TensorBoard event files; none are.",
        "false",
        is_retired=True,
    ),
    Option(
        "graphdef",
        ("--graphdef",),
        Text("auto|FILE"),
        "Graph definition of a TensorFlow 1 model, which is no longer needed.",
        "none",
        is_retired=True,
    ),
)

GROUPS: Final = {
    "General": GENERAL,
    "Input": INPUT,
    "Profiling an application (unused with --database)": CAPTURE,
    "Aggregation": AGGREGATION,
    "Output": OUTPUT,
    "Accepted for old command lines, without effect": RETIRED,
}
OPTIONS: Final = tuple(option for group in GROUPS.values() for option in group)
