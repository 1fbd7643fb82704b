"""``dlprof --reports=html``: one file beside the others, named and numbered as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aggregator.html_report import template
from profiler_cli.dlprof import main
from tests.conftest import ProfileFactory
from tests.report_file import ReportFile, read_report

needs_page = pytest.mark.skipif(
    not template.PAGE.is_file(), reason="the page is not built: make frontend"
)

#: What no text of a profile may do to the page.
HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>&amp;\u2028'\"`${1}"


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


@pytest.fixture
def database(profile: ProfileFactory) -> str:
    return f"--database={profile('nvtx_domains')}"


@needs_page
def test_the_report_is_one_file_beside_the_database(database: str, tmp_path: Path) -> None:
    assert run(database, f"--output_path={tmp_path}", "--reports=html") == 0

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["dlprof_dldb.sqlite", "dlprof_report.html"]


@needs_page
def test_its_name_begins_with_the_profiles_and_is_numbered_as_all_are(
    database: str, tmp_path: Path
) -> None:
    words = (database, f"--output_path={tmp_path}", "--reports=html,summary", "--formats=csv,json")
    for _ in range(2):
        assert run(*words, "--profile_name=My run") == 0
    assert run(*words, "--profile_name=My run", "--force=true") == 0

    assert sorted(path.name for path in tmp_path.glob("*.html")) == [
        "My_run_report.html",
        "My_run_report_1.html",
    ]
    assert len(list(tmp_path.glob("My_run_summary.*"))) == 2


@needs_page
def test_all_are_dlprofs_eight_and_html_is_one_more(database: str, tmp_path: Path) -> None:
    assert run(database, f"--output_path={tmp_path / 'all'}", "--reports=all") == 0
    assert run(database, f"--output_path={tmp_path / 'more'}", "--reports=all,html") == 0

    assert list((tmp_path / "all").glob("*.html")) == []
    more = {path.name for path in (tmp_path / "more").iterdir()}
    assert more - {path.name for path in (tmp_path / "all").iterdir()} == {"dlprof_report.html"}


@needs_page
def test_report_has_the_requested_domains(database: str, tmp_path: Path) -> None:
    assert run(database, f"--output_path={tmp_path}", "--reports=html") == 0
    words = ("--reports=html", "--domains=Forward", "--profile_name=one")
    assert run(database, f"--output_path={tmp_path}", *words) == 0

    def domains(name: str) -> list[str]:
        report = read_report(tmp_path / name)
        assert list(report.main["domains"]) == report.said()["profile"]["domains"]
        return list(report.main["domains"])

    assert domains("dlprof_report.html") == ["default-domain", "Forward", "Gradient", "Loop"]
    assert domains("one_report_1.html") == ["default-domain", "Forward"]


@needs_page
def test_report_shows_the_aggregation_of_the_run(demo_profile: Path, tmp_path: Path) -> None:
    assert run(f"--database={demo_profile}", f"--output_path={tmp_path}") == 0
    own = f"--database={tmp_path / 'dlprof_dldb.sqlite'}"
    words = (own, f"--output_path={tmp_path}", "--iter_start=3", "--iter_stop=4")
    assert run(*words, "--reports=html") == 0

    (path,) = tmp_path.glob("*.html")
    report = read_report(path)
    aggregation = report.said()["aggregation"]
    assert (aggregation["iter_start"], aggregation["iter_stop"]) == (3, 4)
    iterations = report.main["domains"]["default-domain"]["iterations"]
    assert set(iterations) == {"3", "4"}


@needs_page
def test_a_profile_without_ops_has_its_report_too(profile: ProfileFactory, tmp_path: Path) -> None:
    source = f"--database={profile('simple_no_nvtx')}"
    assert run(source, f"--output_path={tmp_path}", "--reports=html") == 0

    report = read_report(tmp_path / "dlprof_report.html")
    tables = report.main["domains"]["default-domain"]["tables"]
    assert report.rows("kernels", tables["kernels"])


@needs_page
def test_texts_of_the_profile_stay_texts(database: str, tmp_path: Path) -> None:
    words = ("--reports=html", f"--profile_name={HOSTILE}")
    assert run(database, f"--output_path={tmp_path}", *words) == 0

    (path,) = tmp_path.glob("*.html")
    plain = template.PAGE.read_text()
    text = path.read_text()
    blocks = text.count('<script type="application/json"')
    for tag, more in (("<script", blocks), ("</script", blocks), ("<img", 0), ("<!--", -2)):
        assert text.count(tag) == plain.count(tag) + more, tag
    report: ReportFile = read_report(path)
    assert report.title == f"{HOSTILE} - DLProf report"
    assert report.said()["profile"]["name"] == HOSTILE


def test_without_the_page_nothing_is_done_and_the_way_to_it_is_said(
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(template, "PAGE", tmp_path / "page.html")
    out = tmp_path / "out"

    assert run(database, f"--output_path={out}", "--reports=html") == 3

    assert "make frontend" in capsys.readouterr().err
    assert not out.exists()


def test_the_help_need_not_load_what_the_report_needs() -> None:
    code = "import sys, profiler_cli.dlprof; print('aggregator.html_report' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "False"
