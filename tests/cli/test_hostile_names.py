"""Names that steer terminals, spreadsheets or logs: whatever the commands print is plain text."""

from __future__ import annotations

import csv
import json
import logging
from pathlib import Path

import pytest

from aggregator.system.log_lines import JsonFormatter, LineFormatter
from aggregator.system.plain_text import escape_control_characters, escape_formula, on_one_line
from profiler_cli.dlprof import main
from tests.builders import Trace

#: Sets the title, clears the screen, colors; C1 control; ends lines; turns the writing; goes back.
STEERING = "\x1b]0;owned\x07\x1b[2J\x1b[31mEVIL\x9b31m\r\n\u2028\u202eX\x08\x7f\ufeff"
FORMULA = '=HYPERLINK("http://evil.example")'


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = Trace()
    trace.gpu(0)
    thread = trace.thread(100)
    for step in range(40):
        at = 10_000 * step
        thread.range(f"iteration{STEERING} {step}", at, at + 9_000)
        thread.range(f"load{STEERING}", at + 5, at + 90, domain=7)
        thread.op(f"conv2d{STEERING}", at + 100, at + 800, seq=2 * step, sizes="[[8, 3, 4, 4]]")
        thread.launch(f"sgemm{STEERING}", at + 110, gpu=(at + 200, at + 900))
        thread.launch(FORMULA, at + 300, gpu=(at + 900, at + 1_500))
        thread.backward(f"Conv{STEERING}Backward0", at + 2_000, at + 2_900, seq=2 * step)
        thread.launch(f"dgrad{STEERING}", at + 2_010, gpu=(at + 3_000, at + 3_400))
        thread.launch("k" * (1 << 17), at + 400, gpu=(at + 1_500, at + 1_600))
    path = tmp_path_factory.mktemp("hostile") / "export.sqlite"
    trace.write(path)
    return path


def _assert_plain(text: str) -> None:
    acting = {char for char in text if not char.isprintable()} - {"\n", "\t"}
    assert not acting, acting


@pytest.mark.parametrize(
    "words",
    [
        ("--reports=all,advice", "--verbosity=diagnostic"),
        ("--key_node=nope",),
        ("--key_node=aten::conv2d",),
        ("--domains=nope",),
    ],
)
def test_the_command_prints_plain_text(
    words: tuple[str, ...], hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([f"--database={hostile}", f"--output_path={tmp_path}", *words])

    said = capsys.readouterr()
    assert code in {0, 2, 4}
    assert said.out + said.err
    _assert_plain(said.out + said.err)


def _strings(value: object) -> str:
    """All texts of a document, one after another."""
    if isinstance(value, dict):
        return "".join(map(_strings, value.values()))
    if isinstance(value, list):
        return "".join(map(_strings, value))
    return str(value)


def test_reports_hold_no_formula(hostile: Path, tmp_path: Path) -> None:
    assert main([f"--database={hostile}", f"--output_path={tmp_path}", "--reports=all"]) == 0

    csv.field_size_limit(1 << 24)
    for report in tmp_path.glob("*.csv"):
        cells = [cell for row in csv.reader(report.open(newline="")) for cell in row]
        assert not [cell[:40] for cell in cells if cell.startswith(("=", "@"))], report.name
    assert "HYPERLINK" in (tmp_path / "dlprof_kernel.csv").read_text()


# --- parts ----------------------------------------------------------------------------------------


def test_control_characters_are_escaped() -> None:
    _assert_plain(escape_control_characters(STEERING))
    assert escape_control_characters("a\x1b[0m\n\tb") == "a\\x1b[0m\n\tb"
    assert on_one_line("a\nb\u2028c") == "a\\nb\\u2028c"
    assert escape_control_characters("\udcff") == "\\udcff"
    assert escape_control_characters("Größe 时间 🙂") == "Größe 时间 🙂"
    assert [escape_formula(text) for text in ("=1", "a=1", "", "-")] == ["'=1", "a=1", "", "'-"]


@pytest.mark.parametrize("formatter", [LineFormatter("%(levelname)s %(message)s"), JsonFormatter()])
def test_a_log_line_stays_one_line(formatter: logging.Formatter) -> None:
    forged = f"x\n2026-01-01 ERROR forged {STEERING}"
    record = logging.LogRecord("a", logging.ERROR, "f", 1, "no file %s", (forged,), None)

    line = formatter.format(record)

    assert "\n" not in line
    _assert_plain(line)
    if isinstance(formatter, JsonFormatter):
        assert json.loads(line)["message"] == f"no file {forged}"


def test_a_trace_in_a_log_is_further_in_than_a_line() -> None:
    try:
        raise ValueError(f"x\nERROR forged {STEERING}")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("a", logging.ERROR, "f", 1, "failed", (), info)

    first, *rest = LineFormatter("%(levelname)s %(message)s").format(record).splitlines()

    assert first == "ERROR failed"
    assert all(line.startswith("  ") for line in rest)
