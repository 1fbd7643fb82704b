"""Every switch, alias and spelling; what is refused, and how it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aggregator.errors import IterationRangeError, UnknownReportError, UsageError
from aggregator.options import Mode
from profiler_cli.options.declared import CAPTURE, OPTIONS, REPORTS_KIND, Option, Options
from profiler_cli.options.parser import parse_options

# Option -> (text of a value, the value).
VALUES: dict[str, tuple[str, Any]] = {
    "force": ("true", True),
    "verbosity": ("detailed", "detailed"),
    "database": ("a.sqlite", "a.sqlite"),
    "workers": ("4", 4),
    "executor": ("dask", "dask"),
    "mode": ("pytorch", Mode.PYTORCH),
    "nsys_base_name": ("mine", "mine"),
    "nsys_opts": ("-t cuda,nvtx,osrt -s cpu", "-t cuda,nvtx,osrt -s cpu"),
    "nsys_path": ("/opt/nsys", "/opt/nsys"),
    "delay": ("10", 10.0),
    "duration": ("2.5", 2.5),
    "nsys_profile_range": ("True", True),
    "collector": ("cupti", "cupti"),
    "graph_nodes": ("True", True),
    "bare_step_ms": ("46.1", 46.1),
    "bare_steps": ("0", 0),
    "end_with_dlprof": ("True", True),
    "profile_steps": ("all", "all"),
    "detail": ("high", "high"),
    "standby": ("true", True),
    "every": ("30m", 1800.0),
    "when": ("step>1.2x", 1.2),
    "keep": ("3", 3),
    "disk_gb": ("2.5", 2.5),
    "memory": ("True", True),
    "keep_environment": ("True", True),
    "key_node": ("CONV2D_1", "CONV2D_1"),
    "phase": ("decode", "decode"),
    "iter_start": ("3", 3),
    "iter_stop": ("20", 20),
    "gpu_peaks": ("float16=989.4", "float16=989.4"),
    "output_path": ("out/here", Path("out/here")),
    "profile_name": ("my model", "my model"),
    "reports": ("kernel,summary", ("summary", "kernel")),
    "formats": ("json", ("json",)),
    "domains": ("Forward,Gradient", ("Forward", "Gradient")),
    "detailed_mode": ("False", False),
    "dump_model_data": ("true", True),
    "summary": ("true", "true"),
    "extended": ("true", True),
    "tb_dir": ("events", "events"),
    "suppress_tb_files": ("true", True),
    "graphdef": ("auto", "auto"),
}
SPELLINGS = [
    (option, spelling)
    for option in OPTIONS
    if option.kind is not None
    for spelling in option.spellings
]


def spelling_id(value: object) -> str:
    return value.name if isinstance(value, Option) else str(value)


@pytest.mark.parametrize(
    ("text", "is_valid"), [("1", True), ("all", True), ("0", False), ("x", False)]
)
def test_the_steps_to_record_are_a_number_or_all(text: str, is_valid: bool) -> None:
    if is_valid:
        assert parse_options([f"--profile_steps={text}", "true"]).profile_steps == text
        return
    with pytest.raises(UsageError, match="expects a whole number of at least 1, or all"):
        parse_options([f"--profile_steps={text}", "true"])


def test_every_option_is_a_field_and_no_spelling_means_two() -> None:
    assert {option.name for option in OPTIONS} <= set(Options.__dataclass_fields__)
    spellings = [word for option in OPTIONS for word in option.spellings]
    assert len(spellings) == len(set(spellings))
    assert {option.name for option in OPTIONS if option.kind is not None} == set(VALUES)


@pytest.mark.parametrize(("option", "spelling"), SPELLINGS, ids=spelling_id)
def test_a_value_follows_an_equals_sign(option: Option, spelling: str) -> None:
    text, value = VALUES[option.name]
    options = parse_options([f"{spelling}={text}", "python", "train.py"])
    assert getattr(options, option.name) == value
    assert options.application == ("python", "train.py")


@pytest.mark.parametrize(("option", "spelling"), SPELLINGS, ids=spelling_id)
def test_a_value_follows_as_the_next_word(option: Option, spelling: str) -> None:
    text, value = VALUES[option.name]
    options = parse_options([spelling, text, "python", "train.py"])
    assert getattr(options, option.name) == value
    assert options.application == ("python", "train.py")


@pytest.mark.parametrize("text", ["true", "True", "false", "False"])
@pytest.mark.parametrize("form", [["-f={}"], ["-f", "{}"], ["--force={}"], ["--force", "{}"]])
def test_booleans_have_four_words_in_every_spelling(form: list[str], text: str) -> None:
    words = [word.format(text) for word in form]
    assert parse_options(words).force is (text in {"true", "True"})


@pytest.mark.parametrize("words", [["-f"], ["-f", "--mode=simple"], ["--force", "python", "x.py"]])
def test_a_boolean_without_a_value_is_true(words: list[str]) -> None:
    assert parse_options(words).force is True


def test_without_words_everything_is_at_its_default() -> None:
    assert parse_options([]) == Options()


def test_the_last_of_repeated_switches_counts() -> None:
    assert parse_options(["-m", "simple", "--mode=pytorch"]).mode is Mode.PYTORCH


# --- lists -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reports", "application"),
    [
        (["--reports=all"], REPORTS_KIND.tokens, ()),
        (["--report", "all"], REPORTS_KIND.tokens, ()),
        (["--reports=detail,summary"], ("summary", "detail"), ()),
        (["--reports=summary,,detail,"], ("summary", "detail"), ()),
        (["--reports=summary, detail"], ("summary", "detail"), ()),
        (["--reports=summary,summary"], ("summary",), ()),
        (["--reports=all,summary"], REPORTS_KIND.tokens, ()),
        (["--reports", "iteration", "tensor", "--"], ("iteration", "tensor"), ()),
        (["--reports", "iteration", "tensor", "--", "-f"], ("iteration", "tensor"), ()),
        (["--reports", "iteration", "--", "a", "-b"], ("iteration",), ("a", "-b")),
        (["--reports", "iteration", "tensor", "-f"], ("iteration", "tensor"), ()),
        (["--reports", "summary", "tensor"], ("summary", "tensor"), ()),
        (["--reports", "summary", "a.py", "--", "x"], ("summary",), ("a.py", "--", "x")),
        (["--reports", "summary", "python", "a.py"], ("summary",), ("python", "a.py")),
        (["--reports", "summary,kernel", "detail", "--"], ("summary", "detail", "kernel"), ()),
        (["--reports=detailed,tensor_core,group_op"], ("detail", "tensor", "group_node"), ()),
    ],
)
def test_lists_stand_with_commas_or_as_words_up_to_a_double_dash(
    words: list[str], reports: tuple[str, ...], application: tuple[str, ...]
) -> None:
    options = parse_options(words)
    assert options.reports == reports
    assert options.application == application


def test_switches_after_a_list_of_words_are_read() -> None:
    words = [
        "--formats",
        "json",
        "csv",
        "--",
        "--iter_start",
        "2",
        "--domains",
        "A",
        "B",
        "--",
        "-f",
    ]
    options = parse_options(words)
    assert options.formats == ("csv", "json")
    assert options.iter_start == 2
    assert options.domains == ("A", "B")
    assert options.force


def test_a_list_of_any_words_without_an_end_mark_is_one_word() -> None:
    options = parse_options(["--domains", "Forward", "python", "a.py"])
    assert options.domains == ("Forward",)
    assert options.application == ("python", "a.py")


def test_all_domains_means_no_restriction() -> None:
    assert parse_options(["--domains=all"]).domains == ()


def test_an_unknown_word_in_a_list_ended_by_a_double_dash_is_an_unknown_report() -> None:
    with pytest.raises(UnknownReportError, match="'node_op'"):
        parse_options(["--reports", "iteration", "tensor", "node_op", "--"])


# --- the application -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "application"),
    [
        (
            ["python", "train.py", "--mode=simple", "-f"],
            ("python", "train.py", "--mode=simple", "-f"),
        ),
        (["-f=true", "--", "-odd", "--force"], ("-odd", "--force")),
        (["--", "advise"], ("advise",)),
        (["-"], ("-",)),
    ],
)
def test_the_first_word_that_is_no_switch_begins_the_application(
    words: list[str], application: tuple[str, ...]
) -> None:
    assert parse_options(words).application == application


def test_words_after_a_database_are_kept_apart() -> None:
    options = parse_options(["--database=x.sqlite", "python", "train.py"])
    assert options.database == "x.sqlite"
    assert options.application == ("python", "train.py")


def test_help_and_version_need_nothing_else() -> None:
    assert parse_options(["-h", "--nonsense"]).help
    assert parse_options(["-V"]).version


# --- what has no effect ----------------------------------------------------------------------


@pytest.mark.parametrize("option", CAPTURE, ids=spelling_id)
def test_capture_switches_are_unused_with_a_database_only(option: Option) -> None:
    word = f"{option.title}={VALUES[option.name][0]}"
    assert parse_options([word, "--database=x"]).unused == (option.title,)
    assert parse_options([word, "python", "x.py"]).unused == ()


def test_retired_switches_are_always_unused_and_named_once() -> None:
    words = ["-b", "--tb_dir=x", "--tb_dir=y", "--graphdef=auto", "python"]
    assert parse_options(words).unused == ("--suppress_tb_files", "--tb_dir", "--graphdef")


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nope"], "Unknown option --nope"),
        (["-x=3"], "Unknown option -x"),
        (["--Force=true"], "Unknown option --Force"),
        (["--force=yes"], "--force expects true or false, not 'yes'"),
        (["--force=TRUE"], "--force expects true or false, not 'TRUE'"),
        (["--mode=torch"], "--mode expects one of auto, pytorch"),
        (["--verbosity", "loud"], "--verbosity expects one of quiet"),
        (["--iter_start=-1"], "--iter_start expects a whole number of at least 0, not '-1'"),
        (["--iter_start", "-1"], "--iter_start expects a whole number of at least 0, not '-1'"),
        (["--iter_stop=1.5"], "--iter_stop expects a whole number"),
        (["--iter_stop=²"], "--iter_stop expects a whole number"),
        (["-y=-3"], "--delay expects a number of seconds of at least 0, not '-3'"),
        (["-y=nan"], "--delay expects a number of seconds"),
        (["-y=inf"], "--delay expects a number of seconds"),
        (["-d=0"], "--duration expects a number of seconds above 0, not '0'"),
        (["--database"], "--database expects .* no value was found"),
        (["--database="], "--database expects a text that is not empty, not ''"),
        (["--key_node", "--force"], "--key_node expects .* no value was found"),
        (["--reports", "--", "x"], "--reports expects .* no value was found"),
        (["--reports="], "--reports expects a list of all, summary"),
        (["--domains=,"], "--domains expects a list of names"),
        (["--help=yes"], "--help takes no value"),
        (["--nsys_opts", "-f"], "--nsys_opts expects .* no value was found"),
    ],
)
def test_bad_words_are_usage_errors(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_options(words)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--reprots=all"], "Did you mean --reports?"),
        (["--mode=pytorhc"], "Did you mean pytorch?"),
        (["--reports=sumary"], "Did you mean summary? There are: all, summary, detail,"),
        (["--formats=jsn"], "Did you mean json? There are: all, csv, json."),
        (["--reports=zzz"], "There are: all, summary"),
    ],
)
def test_the_closest_word_is_named(words: list[str], hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_options(words)
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize("words", [["--reports=x"], ["--formats=xml"], ["--reports", "x", "a.py"]])
def test_unknown_reports_and_formats_have_a_code_of_their_own(words: list[str]) -> None:
    with pytest.raises(UnknownReportError) as caught:
        parse_options(words)
    assert caught.value.code == "UNKNOWN_REPORT"


def test_a_reversed_iteration_range_is_refused() -> None:
    with pytest.raises(IterationRangeError, match="--iter_stop=3 is less than --iter_start=5"):
        parse_options(["--iter_start=5", "--iter_stop=3"])


def test_a_range_of_one_iteration_and_an_open_range_are_fine() -> None:
    assert parse_options(["--iter_start=5", "--iter_stop=5"]).iter_stop == 5
    assert parse_options(["--iter_stop=0"]).iter_stop == 0
