"""The prose of the project is plain technical English with American spelling."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SUFFIXES = (".py", ".ts", ".tsx", ".md", ".sql", ".toml", ".po")
WORDS = (
    *("told", "tells?", "nobody", "whoever", "somebody"),
    *("like steps", "listed no more", "gone on with", "puts up with", "stands there"),
    *("by itself alone", "could win"),
    # British spellings.
    *(r"(under|over)?utilis\w*", r"normalis\w*", r"optimis(?!tic|m)\w*", r"recognis\w*"),
    *(r"(re)?initialis\w*", r"(un)?synchronis\w*", r"vectoris\w*"),
    *(r"(mis)?behaviours?", r"(re|dis)?colour\w*", r"neighbour\w*"),
    *(r"centre[ds]?", r"analyse[dr]?", "analysing"),
)
#: Letters only: words in names with underscores count as well.
WORD = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(WORDS)})(?![A-Za-z])", re.IGNORECASE)
#: A verdict of a comparison, part of its interface.
VERDICT = re.compile(r"cannot[ _]tell", re.IGNORECASE)
#: (file, word): why the word may be in the file.
ALLOWED: dict[tuple[str, str], str] = {}


def texts() -> dict[str, str]:
    """Return the text of every source file, with those of translations left out."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [REPOSITORY / name for name in done.stdout.splitlines() if name.endswith(SUFFIXES)]
    return {
        path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
        if path.is_file() and path != Path(__file__).resolve()
    }


def found_words(text: str) -> list[str]:
    return [match[0].lower() for match in WORD.finditer(VERDICT.sub("", text))]


def test_no_file_contains_a_word_of_the_list() -> None:
    wrong = [
        f"{name}:{number}: {word}"
        for name, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        for word in found_words(line)
        if (name, word) not in ALLOWED
    ]
    assert wrong == []


def test_no_exception_is_left_over() -> None:
    files = texts()
    unused = [
        (name, word) for name, word in ALLOWED if word not in found_words(files.get(name, ""))
    ]
    assert unused == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("test_a_column_tells_its_unit", ["tells"]),
        ("Nobody has told the viewer.", ["nobody", "told"]),
        ("GPU utilisation, behaviours, colours", ["utilisation", "behaviours", "colours"]),
        ("a neighbouring centre, analysed; two analyses", ["neighbouring", "centre", "analysed"]),
        ("Verdict.CANNOT_TELL: cannot tell", []),
        ("telling utilization behavior optimistic storytellers cancelled", []),
    ],
)
def test_the_words_are_found(text: str, expected: list[str]) -> None:
    assert found_words(text) == expected


def test_no_loop_variable_is_called_one() -> None:
    wrong = [
        f"{name}:{node.target.lineno}"
        for name, text in texts().items()
        if name.endswith(".py") and not name.startswith("tests/")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.For | ast.comprehension)
        for part in ast.walk(node.target)
        if isinstance(part, ast.Name) and part.id == "one"
    ]
    assert wrong == []
