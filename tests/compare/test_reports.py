"""Markdown, HTML and JUnit of a comparison, and the pictures in the HTML file."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest

from aggregator.compare.markdown import escaped, to_markdown
from aggregator.compare.page import to_html
from aggregator.compare.picture import module_tree, waterfall
from aggregator.compare.result import (
    Capture,
    Change,
    CompareSetting,
    Comparison,
    Judgement,
    Match,
    Row,
    Side,
    Verdict,
)
from profiler_cli.commands.junit import to_junit
from profiler_cli.dlprof import main
from tests.conftest import DEMO_PROFILE, ProfileFactory

HOSTILE = "<script>alert(1)</script>|`@team` \x00"


def row(kind: str, module: str, base: Fraction, new: Fraction, verdict: Verdict) -> Row:
    samples = tuple(np.array([float(base), float(base) * 1.01]) for _ in range(2))
    judgement = Judgement(verdict, (-1.0, 1.0), 0.4)
    return Row(
        *(kind, "", module, "op", "type", "fprop", Match.SAME, base, new, judgement),
        *(samples, samples),
    )


def comparison(verdict: Verdict = Verdict.SLOWER) -> Comparison:
    third = Fraction(1_000_000, 3)
    rows = (
        row("other compute", f"/{HOSTILE}/", 10 * third, 12 * third, Verdict.SLOWER),
        row("copy", "/layer/", third, third, Verdict.SAME),
        row("tail", "/", 2 * third, third, Verdict.CANNOT_TELL),
    )

    def side(total: Fraction) -> Side:
        steps = np.array([int(total), int(total)], dtype=np.int64)
        return Side((Capture("a.sqlite", 1, 0, 1, "", 1, steps),))

    return Comparison(
        base=side(13 * third),
        new=side(14 * third),
        judgement=Judgement(verdict, (1e5, 6e5), 14.0),
        classes=tuple(Change(one.kind, one.base_ns, one.new_ns) for one in rows),
        causes=(),
        rows=rows,
        setup=(CompareSetting("GPU", HOSTILE, ""),),
        headline=f"The step is slower. {HOSTILE}",
        notes=("A note.",),
    )


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]


def test_html_is_one_file_in_which_names_stay_text():
    page = to_html(comparison())
    tags = Tags(page).tags
    assert {"svg", "table", "details"} <= tags
    assert not tags & {"script", "link", "img", "iframe"}
    assert "&lt;script&gt;" in page
    assert "http" not in page


def test_the_waterfall_ends_at_the_new_step_and_its_numbers_add_up():
    picture = waterfall(comparison())
    values = [float(text) for text in re.findall(r">([-+]?\d+\.\d+) ms<", picture)]
    assert values[0] + sum(values[1:-1]) == pytest.approx(values[-1], abs=1e-9)
    assert values[-1] == pytest.approx(14 / 3, abs=0.0005)
    bars = [
        (float(x), float(width))
        for x, width in re.findall(r'<rect class="\w+" x="([\d.]+)".*? width="([\d.]+)"', picture)
    ]
    change = bars[-2]
    assert change[0] == pytest.approx(sum(bars[-1]), abs=0.02)


def test_modules_add_up_to_the_step():
    found = comparison()
    root = module_tree(found)
    assert root.base_ns == sum(one.base_ns for one in found.rows)
    assert sum(part.new_ns for part in root.parts.values()) == root.new_ns


def test_markdown_escapes_names_and_its_columns_add_up():
    text = to_markdown(comparison())
    assert "<script>" not in text
    assert "| @" not in text
    assert escaped("a|b\n@c") == r"a\|b \@c"
    assert escaped("a\x1b[31m\u202eb") == r"a\\x1b\[31m\\u202eb"
    table = text.split("| Class")[1].split("\n\n")[0]
    numbers = [float(cell) for cell in re.findall(r"\| ([-+]?\d+\.\d+)", table)]
    columns = np.array(numbers).reshape(-1, 3)
    assert columns[:-1].sum(axis=0) == pytest.approx(columns[-1], abs=1e-9)
    assert columns[:, 1] - columns[:, 0] == pytest.approx(columns[:, 2], abs=1e-9)


@pytest.mark.parametrize(
    ("verdict", "limit", "failures", "skipped"),
    [
        (Verdict.SLOWER, Fraction(3, 100), 1, 0),
        (Verdict.SLOWER, Fraction(10, 100), 0, 0),
        (Verdict.CANNOT_TELL, Fraction(3, 100), 0, 1),
        (Verdict.FASTER, Fraction(3, 100), 0, 0),
    ],
)
def test_junit_fails_on_a_regression_and_skips_what_is_unknown(verdict, limit, failures, skipped):
    suite = ET.fromstring(to_junit(comparison(verdict), limit))
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == (str(failures), str(skipped))
    assert len(suite.findall(".//failure")) == failures
    assert len(suite.findall(".//skipped")) == skipped
    assert len(suite) == int(suite.attrib["tests"]) == 4


def test_the_command_writes_a_report_of_each_kind(
    imported: ProfileFactory, tmp_path, capsys, monkeypatch
):
    database = imported(DEMO_PROFILE)
    monkeypatch.chdir(tmp_path)
    sides = [f"{database}@5-9", f"{database}@10-14"]
    reports = [f"--report=compare{suffix}" for suffix in (".txt", ".json", ".md", ".html", ".xml")]
    code = main(["compare", *sides, "--format=markdown", *reports])
    printed = capsys.readouterr().out
    assert code in (0, 10, 14)
    assert printed == (tmp_path / "compare.md").read_text(encoding="utf-8")
    assert (tmp_path / "compare.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert ET.parse(tmp_path / "compare.xml").getroot().tag == "testsuite"
    assert main(["compare", *sides, "--report=compare.pdf"]) == 2
    assert main(["compare", *sides, "--report=missing/compare.md"]) == 2


def test_a_comparison_without_time_has_a_report():
    empty = replace(comparison(Verdict.CANNOT_TELL), classes=(), rows=(), setup=(), notes=())
    assert "new step" in to_html(empty)
    assert to_markdown(empty).startswith("###")


def test_a_run_is_one_capture_of_a_side(imported: ProfileFactory, tmp_path, capsys):
    database = imported(DEMO_PROFILE)
    other = tmp_path / "other.sqlite"
    shutil.copyfile(database, other)
    for base in (f"{database},{database}", f"{database}@5-9,{database}@10-14"):
        assert main(["compare", f"--base={base}", f"--new={other}"]) == 2
        assert "twice on one side" in capsys.readouterr().err
    parts = [f"--base={database}@2-5,{database}@6-9", f"--new={database}@10-14"]
    assert main(["compare", *parts]) in (0, 10, 14)


@pytest.mark.parametrize("text", ["1e999999999", "-1", "nan", "three"])
def test_a_slowdown_is_a_short_percentage(text, capsys):
    assert main(["compare", "a", "b", f"--max-slowdown={text}"]) == 2
    assert "is no percentage" in capsys.readouterr().err
