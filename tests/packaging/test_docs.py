"""The documents keep their promises: options, verbs, linked files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from profiler_cli.reports.declared import REPORTS

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *REPOSITORY.glob("*.md"),
        *REPOSITORY.glob("benchmarks/*.md"),
        *(REPOSITORY / "docs").rglob("*.md"),
    ]
)
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")
VERB = re.compile(r"\bmake ([a-z][a-z-]+)")
START = "import sys, profiler_cli.{0} as command; sys.exit(command.main())"
OPTION = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")


def help_of(command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", START.format(command), "--help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(
    "script", ["write_cli_docs.py", "write_message_docs.py", "write_schema_docs.py"]
)
def test_the_made_pages_are_up_to_date(script: str) -> None:
    done = subprocess.run(
        [sys.executable, f"scripts/{script}", "--check"],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["dlprof", "dlprofviewer"])
def test_every_option_in_the_help_is_in_the_documents(command: str) -> None:
    heads = [line for line in help_of(command).splitlines() if line.lstrip().startswith("-")]
    options = {option for line in heads for option in OPTION.findall(line.split("   ")[0])}
    assert "--version" in options
    page = (REPOSITORY / "docs/cli.md").read_text()
    assert {option for option in options if f"`{option}`" not in page} == set()


def test_every_report_and_its_file_is_in_the_documents() -> None:
    page = (REPOSITORY / "docs/cli.md").read_text()
    rows = [f"| `{token}` | `dlprof_{report.suffix}` |" for token, report in REPORTS.items()]
    assert [row for row in rows if row not in page] == []


@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    targets = LINK.findall(document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = [
        re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", title)
        for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    ]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_link_to_a_heading_finds_it(document: Path) -> None:
    links = re.findall(r"\]\((?!\w+:)([^)#\s]*)#([^)\s]+)\)", document.read_text())
    pages = [(document.parent / page if page else document, anchor) for page, anchor in links]
    missing = [
        f"{page.name}#{anchor}"
        for page, anchor in pages
        if page.suffix == ".md" and anchor not in _anchors(page)
    ]
    assert missing == []


def test_every_make_verb_in_the_documents_exists() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    verbs = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    text = "\n".join(page.read_text() for page in PAGES)
    named = {
        verb
        for code in re.findall(r"`[^`\n]+`|^make .*$", text, re.MULTILINE)
        for verb in VERB.findall(code)
    }
    assert named - verbs == set()


def test_the_readme_names_the_two_commands_that_start_everything() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    assert "make demo" in readme
    assert "make test" in readme
