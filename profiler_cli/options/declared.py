"""The table of all options of ``dlprof``, for the parser, ``--help`` and docs/cli.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.options import DEFAULT_PROFILE_NAME, Mode
from profiler_cli.options.values import (
    BOOLEAN,
    COUNT_OR_ALL,
    DURATION,
    GIGABYTES,
    MILLISECONDS,
    SLOWER_STEPS,
    Kind,
    Tokens,
    any_text,
    list_of_words,
    one_of,
    seconds,
    whole_number,
)
from profiler_cli.reports.declared import REPORTS

FORMATS: Final = ("csv", "json")
SUMMARIES: Final = ("auto", "true", "false")
DETAILS: Final = ("low", "normal", "high")
VERBOSITIES: Final = ("quiet", "minimal", "normal", "detailed", "diagnostic")

REPORTS_KIND: Final = Tokens(
    "report",
    tuple(name for name, report in REPORTS.items() if not report.is_addition),
    {report.suffix: name for name, report in REPORTS.items() if not report.is_addition},
    accepts_all=True,
    metavar="REPORT[,REPORT...]",
    extra=tuple(name for name, report in REPORTS.items() if report.is_addition),
)
FORMATS_KIND: Final = Tokens("report format", FORMATS, {}, accepts_all=True, metavar="csv,json")


@dataclass(frozen=True)
class Options:
    """Values of the options; the defaults are those of ``--help``."""

    help: bool = False
    version: bool = False
    debug: bool = False
    force: bool = False
    verbosity: str = "normal"
    mode: Mode = Mode.AUTO
    database: str = ""  # Nsight Systems export or DLProf database to aggregate, or several.
    # Rank files read at the same time; None to choose by cores, memory and sizes.
    workers: int | None = None
    executor: str = "local"  # Where rank files are read.
    nsys_base_name: str = "nsys_profile"
    nsys_opts: str = "-t cuda,nvtx -s none"
    nsys_path: str = ""
    collector: str = "auto"  # What records the application: nsys, or cupti for dlprof's own.
    delay: float = 0.0  # Time before profiling starts. Unit: s.
    duration: float | None = None  # Time to profile; None for the whole application. Unit: s.
    detailed_mode: bool = True
    nsys_profile_range: bool = False
    memory: bool = False  # Whether to record allocations of GPU memory.
    graph_nodes: bool = False  # Whether to record each kernel of CUDA graphs.
    end_with_dlprof: bool = False  # Whether the application ends if dlprof is killed.
    keep_environment: bool = False  # Whether the export keeps the environments of processes.
    bare_steps: int | None = None  # Steps timed before profiling; None for as many as suit.
    profile_steps: str = ""  # Steps of each loop that are recorded: a number, or all.
    detail: str = "normal"  # How much is recorded: one of ``DETAILS``.
    standby: bool = False  # Whether nothing is recorded until ``dlprof record`` asks for it.
    every: float | None = None  # Time between windows of a job that stands by. Unit: s.
    when: float | None = None  # Such a job records a window if steps are slower by this factor.
    keep: int = 20  # Windows of such a job that are kept whole.
    disk_gb: float = 10.0  # What they may take.
    key_node: str = ""
    phase: str = ""
    list_key_nodes: bool = False
    iter_start: int | None = None  # First iteration, inclusive; None for the first.
    iter_stop: int | None = None  # Last iteration, inclusive; None for the last.
    output_path: Path = Path()
    profile_name: str = ""  # Name of the profile; empty if not set.
    reports: tuple[str, ...] = ()
    formats: tuple[str, ...] = ("csv",)
    domains: tuple[str, ...] = ()  # Custom NVTX domains to report on; empty for all.
    extended: bool = False
    gpu_peaks: str = ""
    bare_step_ms: float | None = None  # Step without profiling, as the program timed it. Unit: ms.
    dump_model_data: bool = False
    summary: str = "auto"  # Whether a summary of the ranks is written: one of ``SUMMARIES``.
    tb_dir: str = "event_files"
    suppress_tb_files: bool = False
    graphdef: str = ""
    application: tuple[str, ...] = ()  # The profiled command.
    unused: tuple[str, ...] = ()  # Options that were set and have no effect.


@dataclass(frozen=True)
class Option:
    """One option."""

    words: str  # All spellings; the first long one names it in messages and in ``Options``.
    kind: Kind | Tokens | None  # Kind of its value; None if it takes no value.
    help: str  # One or two sentences for ``--help``.
    default: str = ""  # The default in words; empty if it is not shown.

    @property
    def spellings(self) -> list[str]:
        """All spellings."""
        return self.words.split()

    @property
    def title(self) -> str:
        """The spelling for messages."""
        return next(word for word in self.spellings if word.startswith("--"))

    @property
    def name(self) -> str:
        """Field of ``Options``."""
        return self.title.removeprefix("--")


GENERAL: Final = (
    Option("-h --help", None, "Show this help and exit."),
    Option("-V --version", None, "Show the version and exit."),
    Option(
        "-f --force",
        BOOLEAN,
        "Overwrite existing databases and reports. Otherwise the new files get _1, _2, ... in "
        "their names.",
        "false",
    ),
    Option(
        "-v --verbosity",
        one_of(VERBOSITIES),
        "Log level. quiet shows only errors, minimal only results.",
        "normal",
    ),
    Option("--debug", None, "Show the full traceback of an error."),
)

INPUT: Final = (
    Option(
        "--database --nsys_database",
        any_text("FILE[,FILE...]"),
        "Aggregate this Nsight Systems export (SQLite) or DLProf database instead of profiling "
        "an application. Several files, or a pattern in quotes ('rank*.sqlite'), are the ranks of "
        "one job and are joined in one database. An application is ignored.",
        "none",
    ),
    Option(
        "--workers",
        whole_number(at_least=1),
        "Number of rank files to read at the same time.",
        "by cores and memory",
    ),
    Option(
        "--executor",
        any_text("NAME"),
        "Where rank files are read: local, celery or dask[:ADDRESS].",
        "local",
    ),
    Option(
        "-m --mode",
        one_of(tuple(mode.value for mode in Mode), Mode),
        "Framework whose ranges the profile contains.",
        "auto",
    ),
)

# These have an effect only if an application is profiled.
CAPTURE: Final = (
    Option(
        "--nsys_base_name --nsys_base_output_filename",
        any_text("NAME"),
        "Name of the Nsight Systems files, without extension.",
        "nsys_profile",
    ),
    Option(
        "--nsys_opts --nsys_options",
        any_text("OPTIONS"),
        "Options for nsys, in quotes.",
        "-t cuda,nvtx -s none",
    ),
    Option("--nsys_path", any_text("FILE"), "The nsys program to run.", "nsys on PATH"),
    Option(
        "--collector",
        one_of(("auto", "nsys", "cupti")),
        "What records the application: dlprof's own collector (cupti) or Nsight Systems. auto: "
        "the own one; Nsight Systems with --nsys_path or --nsys_opts, or where the own one does "
        "not work.",
        "auto",
    ),
    Option("-y --delay", seconds(), "Start profiling after this many seconds.", "0"),
    Option(
        "-d --duration",
        seconds(above_zero=True),
        "Profile for this many seconds, then end the application.",
        "the whole application",
    ),
    Option(
        "--nsys_profile_range",
        BOOLEAN,
        "Profile only between profiler start and stop calls in the script.",
        "false",
    ),
    Option(
        "--memory",
        BOOLEAN,
        "Record all allocations of GPU memory: those of the CUDA driver in the profile, and those "
        "of PyTorch with modules and call stacks in a snapshot for dlprof memory.",
        "false",
    ),
    Option(
        "--graph_nodes",
        BOOLEAN,
        "Record each kernel of CUDA graphs (--cuda-graph-trace=node of nsys), not only whole "
        "graphs: kernels then belong to the ops that were captured. Replays take longer.",
        "false",
    ),
    Option(
        "--end_with_dlprof",
        BOOLEAN,
        "End the application if dlprof itself is killed. Otherwise it goes on, and what was "
        "recorded is kept.",
        "false",
    ),
    Option(
        "--keep_environment",
        BOOLEAN,
        "Leave in the Nsight Systems export what it records of the processes of this machine: "
        "environment variables, command lines and output.",
        "false",
    ),
    Option(
        "--bare_steps",
        whole_number(),
        "Time at least this many steps of a PyTorch loop without markers and collection, then "
        "profile; the result says what profiling cost. 0 profiles from the start.",
        "10 for 1 to 5 s; 5 of a loop of unknown length",
    ),
    Option(
        "--profile_steps",
        COUNT_OR_ALL,
        "Record this many steps of each loop of PyTorch, then detach: the rest of the run is "
        "not slowed down. all records the whole run, as DLProf did.",
        "about 40, for at least 2 s",
    ),
    Option(
        "--detail",
        one_of(DETAILS),
        "How much is recorded. normal: ranges of modules and ops, with shapes, in a few steps of a "
        "PyTorch loop; later steps run without them, and their kernels get their names by "
        "alignment. low: ranges in one step, without shapes, and no CUDA events. high: ranges in "
        "all steps, and context switches.",
        "normal",
    ),
    Option(
        "--standby",
        BOOLEAN,
        "Record nothing until dlprof record asks for some steps, and then leave the process again. "
        "DLPROF_STANDBY=1 in the environment has the same effect.",
        "false",
    ),
    Option(
        "--every", DURATION, "With --standby: record a window every so often, such as 30m or 1h."
    ),
    Option(
        "--when",
        SLOWER_STEPS,
        "With --standby: record a window when two minutes in sequence have steps longer than those "
        "before by this factor, as in 'step>1.1x'.",
    ),
    Option(
        "--keep",
        whole_number(at_least=1),
        "With --every or --when: keep the last N windows whole; of older ones only summaries.",
        "20",
    ),
    Option(
        "--disk_gb",
        GIGABYTES,
        "With --every or --when: room that whole windows may take. Unit: GB.",
        "10",
    ),
)

AGGREGATION: Final = (
    Option(
        "--key_node --key_op",
        any_text("OP"),
        "The op or range that marks the end of an iteration: an Op ID, an op name, or a range "
        "name with # for its counter, as in 'iteration #'.",
        "chosen from the profile",
    ),
    Option(
        "--phase",
        any_text("NAME"),
        "Aggregate only iterations of this phase: prefill or decode of a serving engine or of "
        "generate(), train, or another name that the program gave. For a "
        "database and without a range, only the steady iterations.",
        "all iterations",
    ),
    Option(
        "--list_key_nodes --list-key-nodes",
        None,
        "Print the candidates for the key node of --database, each with its iterations and how "
        "even they are, and write nothing.",
    ),
    Option("--iter_start", whole_number(), "First iteration to aggregate, inclusive.", "0"),
    Option(
        "--iter_stop", whole_number(), "Last iteration to aggregate, inclusive.", "the last found"
    ),
    Option(
        "--gpu_peaks",
        any_text("NAME=VALUE[,NAME=VALUE...]"),
        "Peak rates of the GPU, instead of the known ones, for example "
        "float16=989.4,bandwidth=4800 (TFLOP/s and GB/s).",
        "known rates, or DLPROF_GPU_PEAKS",
    ),
    Option(
        "--bare_step_ms",
        MILLISECONDS,
        "What a step takes without profiling, as the program itself prints it. Without it, and "
        "without steps that dlprof timed, nothing can be said of what idle time of the GPU costs.",
        "measured by dlprof python ..., else unknown",
    ),
)

OUTPUT: Final = (
    Option(
        "--output_path",
        any_text("FOLDER", Path),
        "Folder for all output files; created if missing. %q{RANK} in it and in other output names "
        "is replaced by the value of that environment variable.",
        "./",
    ),
    Option(
        "--profile_name --base_name",
        any_text("NAME"),
        "Name of the profile, shown in the viewer. Report file names begin with it, with _ for "
        "spaces.",
        DEFAULT_PROFILE_NAME,
    ),
    Option(
        "--reports --report",
        REPORTS_KIND,
        f"Reports to write: all, {', '.join(REPORTS_KIND.tokens)}; not part of all: "
        f"{', '.join(REPORTS_KIND.extra)}.",
        "none",
    ),
    Option("--formats --file_formats", FORMATS_KIND, "File formats of the reports.", "csv"),
    Option(
        "--domains",
        list_of_words("DOMAIN[,DOMAIN...]"),
        "Custom NVTX domains to write reports for.",
        "all",
    ),
    Option("--detailed_mode", BOOLEAN, "TensorFlow only: show data types of the ops.", "true"),
    Option(
        "--extended", BOOLEAN, "Append columns to the reports that DLProf did not have.", "false"
    ),
    Option(
        "--summary",
        one_of(SUMMARIES),
        "Also write a summary of the ranks, for dlprof stragglers. auto: after profiling an "
        "application with several ranks, or one rank of a job.",
        "auto",
    ),
    Option("--dump_model_data", BOOLEAN, "Also write the raw correlated data as JSON.", "false"),
)

# These have no effect and are accepted for old command lines.
RETIRED: Final = (
    Option(
        "--tb_dir",
        any_text("FOLDER"),
        "Folder for TensorBoard event files, which are no longer written.",
        "event_files",
    ),
    Option(
        "-b --suppress_tb_files",
        BOOLEAN,
        "Write no TensorBoard event files, which are no longer written.",
        "false",
    ),
    Option(
        "--graphdef",
        any_text("auto|FILE"),
        "Graph definition of a TensorFlow 1 model, which is no longer needed.",
        "none",
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
