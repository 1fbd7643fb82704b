"""The commands on the pages run as they stand there, and print what the pages show.

A ``console`` block runs unless the line above it says ``<!-- not run: REASON -->``. The blocks of a
page run one after the other in one folder, which begins with the files of ``FILES`` that the page
names. In a block with lines that begin with ``$ `` the other lines are output: it has to be
printed so, except that a line ``...`` stands for any lines.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cluster.job import rank_exports
from tests.conftest import made_once
from tests.packaging.containers import REPOSITORY

LIMIT_S = 180
#: Of success, and of commands that answer by their exit code: advice, comparison, doctor.
ANSWERS = {0, *range(10, 15)}
EXAMPLES = REPOSITORY / "examples"
PAGES = [
    *(REPOSITORY / "README.md", EXAMPLES / "README.md"),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
REASONS = {
    "needs a GPU",
    "needs the network",
    "needs a cluster",
    "needs a running server",
    "needs root",
    "needs other programs",
    "serves until it is stopped",
    "shows the form",
}
#: Pages name commands that would change the machine: only these are run without a mark.
PROGRAMS = {"dlprof", "xz", "cat", "ls", "mkdir", "export", "sqlite3", "./run.sh"}
_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<mark>[^>]*) -->\n)?^(?P<indent> *)```(?P<language>console|sql)\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
CAPTURES = REPOSITORY / "tests/data/captures"
#: Files that a page may name without having made them, and the packed file that each one is.
FILES = {
    "nsys_profile.sqlite": REPOSITORY / "demo/resnet50_amp.sqlite.xz",
    "profile.sqlite": REPOSITORY / "demo/resnet50_amp.sqlite.xz",
    "trace.json": CAPTURES / "kineto/resnet50.json.xz",
    "rank0.json": CAPTURES / "kineto/ddp_rank0.json.xz",
    "rank1.json": CAPTURES / "kineto/ddp_rank1.json.xz",
    "snapshot.pickle": CAPTURES / "memory/transformer.pickle.xz",
    "before.pickle": CAPTURES / "memory/gpt2.pickle.xz",
    "after.pickle": CAPTURES / "memory/gpt2_autocast.pickle.xz",
}
#: The same for databases, each made of a profile.
DATABASES = {
    "dlprof_dldb.sqlite": REPOSITORY / "demo/resnet50_amp.sqlite.xz",
    "before.sqlite": CAPTURES / "pytorch_resnet50_amp.sqlite.xz",
    "after.sqlite": REPOSITORY / "demo/resnet50_amp.sqlite.xz",
    "run.sqlite": REPOSITORY / "demo/resnet50_amp.sqlite.xz",
}


@dataclass(frozen=True)
class Block:
    """Commands on a page."""

    mark: str
    language: str
    text: str

    def is_run(self) -> bool:
        return not self.mark.startswith("not run: ")

    def steps(self) -> Iterator[tuple[str, str | None]]:
        """Commands with the output that is shown; None: no output is shown."""
        command = re.compile(r"(?:.*\\\n)*.*\n")
        if not re.search(r"^\$ ", self.text, re.MULTILINE):
            yield from ((match[0], None) for match in command.finditer(self.text))
            return
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            match = command.match(part)
            assert match is not None
            yield match[0], part[match.end() :] or None


def programs_of(script: str) -> set[str]:
    """Return the programs that a script starts: the first words of its lines and pipelines."""
    text = re.sub(r"'[^']*'|\\\n|#.*", " ", script)
    parts = re.split(r"\n|&&|\|\|?|;", text)
    return {words[0] for part in parts if (words := part.split())}


def read_blocks(page: Path) -> list[Block]:
    found = _BLOCK.finditer(page.read_text("utf-8"))
    return [Block(match["mark"] or "", match["language"], dedent(match["text"])) for match in found]


def is_shown(printed: str, shown: str) -> bool:
    """Whether a page shows what was printed, or parts of it; widths of columns do not count."""
    lines = [
        r"(?:.*\n)*?" if line == "..." else r" *" + re.escape(" ".join(line.split())) + r" *\n"
        for line in shown.splitlines()
    ]
    return re.fullmatch("".join(lines), re.sub(" +", " ", printed)) is not None


def _database(factory: pytest.TempPathFactory, packed: Path) -> Path:
    def make(path: Path) -> None:
        export = path.with_suffix(".export")
        export.write_bytes(lzma.decompress(packed.read_bytes()))
        _run(f"dlprof --database={export} --output_path={path}.made -v=quiet", path.parent)
        Path(f"{path}.made/dlprof_dldb.sqlite").rename(path)

    return made_once(factory, f"documents/{packed.name}.database", make)


def _run(script: str, folder: Path) -> tuple[int, str]:
    """Run it by bash, with this checkout's commands; what it prints is one text, as on a screen."""
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "DLPROF_STATE_DIR": str(folder / ".state"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture
def fill(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, str], None]:
    """A function that puts the files that a text names into a folder."""

    def put(folder: Path, text: str) -> None:
        if "demo/" in text:
            (folder / "demo").symlink_to(REPOSITORY / "demo")
        for name, packed in FILES.items():
            if name in text:
                (folder / name).write_bytes(lzma.decompress(packed.read_bytes()))
        if re.search(r"rank[0*]\.sqlite", text):
            for rank, path in enumerate(rank_exports(folder, slow=1, share=0.2)):
                path.rename(folder / f"rank{rank}.sqlite")
        for name, packed in DATABASES.items():
            if name in text:
                (folder / name).write_bytes(_database(tmp_path_factory, packed).read_bytes())

    return put


def _pages_with(language: str) -> list[object]:
    return [
        pytest.param(page, id=str(page.relative_to(REPOSITORY)))
        for page in PAGES
        if any(block.language == language and block.is_run() for block in read_blocks(page))
    ]


@pytest.mark.parametrize("document", _pages_with("console"))
def test_commands_run_and_print_what_the_page_shows(
    document: Path, tmp_path: Path, fill: Callable[[Path, str], None]
) -> None:
    blocks = [
        block for block in read_blocks(document) if block.language == "console" and block.is_run()
    ]
    if document.parent == EXAMPLES:
        without_results = shutil.ignore_patterns("out")
        shutil.copytree(EXAMPLES, tmp_path, ignore=without_results, dirs_exist_ok=True)
    else:
        fill(tmp_path, "\n".join(block.text for block in blocks))
    for block in blocks:
        for command, shown in block.steps():
            assert programs_of(command) <= PROGRAMS, f"{command}needs a mark: see REASONS"
            code, printed = _run(command, tmp_path)
            assert code in ANSWERS, f"{command}{printed}"
            if shown is not None:
                assert is_shown(printed, shown), f"{command}{printed}"


@pytest.mark.parametrize("document", _pages_with("sql"))
def test_queries_are_answered_by_a_database(
    document: Path, tmp_path: Path, fill: Callable[[Path, str], None]
) -> None:
    fill(tmp_path, "dlprof_dldb.sqlite")
    with sqlite3.connect(tmp_path / "dlprof_dldb.sqlite") as connection:
        for block in read_blocks(document):
            if block.language == "sql" and block.is_run():
                connection.execute(block.text).fetchall()


def test_every_reason_not_to_run_a_block_is_known() -> None:
    marks = {(page.name, block.mark) for page in PAGES for block in read_blocks(page)}
    known = {"", *(f"not run: {reason}" for reason in REASONS)}
    assert [mark for mark in marks if mark[1] not in known] == []


def test_programs_of_a_script_are_found() -> None:
    script = "dlprof show 'a; b' \\\n  x\nrm -r x && xz y | cat # curl\n"
    assert programs_of(script) == {"dlprof", "rm", "xz", "cat"}


def test_output_that_differs_is_found() -> None:
    shown = "$ printf 'a\\nb\\nc\\n'\na\n...\nc\n"
    ((command, output),) = Block("", "console", shown).steps()
    assert command == "printf 'a\\nb\\nc\\n'\n"
    assert output is not None
    assert is_shown("a\nb\n  c  \n", output)
    assert not is_shown("a\nb\nd\n", output)
