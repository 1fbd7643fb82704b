"""Messages of commits: the hook and the check of the history agree on what may be written."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.check_commits import check_history, faults
from tests.conftest import REPOSITORY


@pytest.mark.parametrize(
    "message",
    [
        "Add index for op sensitivity",
        "Process ranks in parallel",
        "Embed the font\n\nThe page may not load one.",
        "Focus the first row",
        "Merge branch 'work-A'",
        'Revert "Counters are read; they were not"',
    ],
)
def test_good_messages_pass(message: str) -> None:
    assert faults(message, 10) == []


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("The page is built by make", "verb in the imperative"),
        ("Added an index", "verb in the imperative"),
        ("Fixes the index", "verb in the imperative"),
        ("Removing the index", "verb in the imperative"),
        ("Review of the advice", "verb in the imperative"),
        ("No rates of phases", "verb in the imperative"),
        ("", "verb in the imperative"),
        ("add an index", "capital letter"),
        ("Add an index.", "period"),
        ("Add an index; drop a view", "two topics"),
        (f"Add {'x' * 69}", "73 characters"),
        ("Add an index\nIt is faster.", "second line"),
    ],
)
def test_bad_messages_are_refused(message: str, fault: str) -> None:
    assert any(fault in sentence for sentence in faults(message, 10))


def test_large_changes_need_a_body() -> None:
    assert faults("Replace the parser", 200) == []
    assert faults("Replace the parser", 201)
    assert faults("Replace the parser\n\nIt read nothing twice.", 201) == []


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the hook, as `make setup` installs it, and a commit of old style."""
    for name in (".githooks/commit-msg", "scripts/check_commits.py"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(REPOSITORY / name, tmp_path / name)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    assert git(tmp_path, "commit", "-qm", "the old style; anything goes").returncode == 0
    git(tmp_path, "config", "core.hooksPath", ".githooks")
    return tmp_path


def test_the_hook_refuses_what_the_check_refuses(repository: Path) -> None:
    (repository / "long.txt").write_text("line\n" * 300)
    git(repository, "add", ".")

    refused = git(repository, "commit", "-m", "The file is long")
    without_body = git(repository, "commit", "-m", "Add a long file")
    taken = git(repository, "commit", "-m", "Add a long file\n\nThe reason.")

    assert refused.returncode != 0
    assert "verb in the imperative" in refused.stderr
    assert "300 lines change, and no body gives the reason." in without_body.stderr
    assert taken.returncode == 0


def test_only_commits_after_the_base_are_checked(repository: Path) -> None:
    program = repository / "scripts" / "check_commits.py"
    base = git(repository, "rev-parse", "HEAD").stdout.strip()
    text = program.read_text()
    start = text.index('BASE = "') + len('BASE = "')
    program.write_text(text[:start] + base + text[start + len(base) :])
    git(repository, "commit", "-aqm", "the check is new", "--no-verify")

    checked = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)

    assert checked.returncode == 1
    assert "capital letter" in checked.stderr
    assert "old style" not in checked.stderr


def test_a_history_without_the_base_is_no_failure() -> None:
    assert check_history("0" * 40) == []
