"""``dlprof advise``: what it prints, and its exit codes."""

from __future__ import annotations

import json
import lzma
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.options import ImportOptions, Mode
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress
from profiler_cli.commands.advise import _evidence
from profiler_cli.dlprof import main
from profiler_cli.options.declared import Options

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures" / "advice"


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "mlp_fp32.sqlite"
    path.write_bytes(lzma.decompress((CAPTURES / "mlp_fp32.sqlite.xz").read_bytes()))
    return path


@pytest.fixture(scope="module")
def database(export: Path) -> Path:
    path = export.with_name("dlprof_dldb.sqlite")
    import_profile(ImportOptions(export, path), NullProgress())
    return path


def test_the_worst_severity_is_the_exit_code(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", f"--database={database}"]) == 13
    text = capsys.readouterr().out
    assert re.search(
        r"1\. HIGH, could save up to [\d.]+ ms \(81%\) by replay \(likely\): No matrix product",
        text,
    )
    assert "Do: Allow TF32" in text
    assert main(["advise", "--database", str(database), "--fail_on", "never"]) == 0


def test_the_file_is_named_as_in_other_commands(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", str(database)]) == 13
    named = capsys.readouterr().out
    assert main(["advise", f"--database={database}"]) == 13
    assert capsys.readouterr().out == named
    for words in ([], [str(database), f"--database={database}"]):
        assert main(["advise", *words]) == 2
    assert "dlprof advise needs one FILE." in capsys.readouterr().err


def test_a_run_ends_with_the_verdict_and_the_findings_of_advise(
    export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"--database={export}", f"--output_path={tmp_path}", "-v=minimal"]) == 0
    run = capsys.readouterr().out
    database = tmp_path / "dlprof_dldb.sqlite"
    main(["advise", str(database)])
    advice = capsys.readouterr().out
    first = re.search(r"^1\. (?:[^:]*: )?((?:.|\n)*?)\n   Do: ", advice, re.MULTILINE)
    assert first is not None
    start = " ".join(first[1].split())[:40]
    (verdict,) = [line for line in advice.splitlines() if start in line and line[:2] != "1."]
    findings = re.findall(r"^\d\. (?:.|\n)*?(?=\n   Why)", advice, re.MULTILINE)
    assert len(findings) == 2
    places = [run.index(text) for text in (verdict, *findings, "Expert Systems Feedback")]
    assert places == sorted(places)
    assert f"Evidence: dlprof advise {database}\n" in run


@pytest.mark.parametrize(
    ("severity", "fail_on", "expected"),
    [("low", "low", 11), ("low", "medium", 0), ("medium", "medium", 12), ("medium", "high", 0)],
)
def test_lower_severities_can_be_let_pass(
    database: Path, tmp_path: Path, severity: str, fail_on: str, expected: int
) -> None:
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(database.read_bytes())
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("UPDATE advice SET severity = ?", (severity,))
        connection.commit()
    assert main(["advise", f"--database={copy}", f"--fail_on={fail_on}"]) == expected


def test_a_profile_without_steps_gets_no_clean_bill(
    export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "simple.sqlite"
    import_profile(ImportOptions(export, database, mode=Mode.SIMPLE), NullProgress())
    assert main(["advise", f"--database={database}"]) == 13
    text = " ".join(capsys.readouterr().out.split())
    assert "(possible): No matrix product runs in FP16 or BF16" in text
    assert "Idle time was not judged: no repeating step was found" in text


def test_evidence_names_ops_by_their_paths() -> None:
    item = {"kind": "op", "name": "ITEM_1 /item", "time_ns": 12_000_000, "count": 4, "steps": 4}
    assert _evidence(item) == "   - op /item  3.000 ms a step  1x a step"
    before = item | {"kind": "before", "name": "TO_1 /a to", "count": None, "steps": None}
    assert _evidence(before) == "   - before /a to  12.000 ms"
    kernel = item | {"kind": "kernel", "name": "void f()"}
    assert _evidence(kernel).startswith("   - kernel void f()  3")


def test_json_holds_evidence_and_queries(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["advise", f"--database={database}", "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert [one["advice_name"] for one in printed["advice"]] == ["half_precision", "tf32_off"]
    first = printed["advice"][0]
    assert first["evidence"][0]["kind"] == "kernel"
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute(first["proof_query"]).fetchone() == (first["proof_value"],)


def test_an_export_is_aggregated_elsewhere(
    export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(export.parent.iterdir())
    assert main(["advise", f"--database={export}"]) == 13
    assert sorted(export.parent.iterdir()) == before
    assert "FP32 matrix products" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["advise"], 2, "dlprof advise needs one FILE."),
        (["advise", "--database=x", "--jsn"], 2, "nrecognized arguments: --jsn"),
        (["advise", "--database=nowhere.sqlite"], 5, "No database at 'nowhere.sqlite'"),
    ],
)
def test_bad_words_are_one_sentence(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_an_aggregation_that_is_not_there(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", f"--database={database}", "--aggregation=9"]) == 2
    assert "has no aggregation 9" in capsys.readouterr().err


def test_a_database_without_aggregations_says_so(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "none.sqlite"
    copy.write_bytes(database.read_bytes())
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("DELETE FROM aggregations")
    assert main(["advise", f"--database={copy}"]) == 5
    assert "The database has no aggregation. [DATABASE_ERROR]\n" in capsys.readouterr().err


def test_a_program_of_that_name_runs_after_two_dashes(monkeypatch: pytest.MonkeyPatch) -> None:
    from profiler_cli.capture import capture as capture_run

    ran: list[tuple[str, ...]] = []

    def run_capture(options: Options, *_: object) -> int:
        ran.append(tuple(options.application))
        return 0

    monkeypatch.setattr(capture_run, "run_capture", run_capture)
    assert main(["--", "advise"]) == 0
    assert ran == [("advise",)]
