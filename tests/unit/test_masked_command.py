from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest

from aggregator.dldb.secrets import MASK, masked_command

SECRETS = Path(__file__).parents[1] / "data" / "tables" / "secret_commands.txt"
SECRET = "hunter2"
FURTHER = "correct-horse"


@pytest.mark.parametrize("command", SECRETS.read_text("utf-8").splitlines())
def test_no_secret_is_stored(command: str) -> None:
    masked = masked_command(tuple(shlex.split(command)))
    assert SECRET not in masked
    assert FURTHER not in masked
    assert MASK in masked
    assert "python train.py" in masked or "train.py" in masked


@pytest.mark.parametrize(
    "command",
    [
        "dlprof --mode=pytorch --reports=all python train.py --lr 0.1",
        "python train.py --tokenizer gpt2",
        "python train.py --max-tokens 512",
        "python train.py --max_tokens=512",
        "python train.py --author ann",
        "python tokenize.py secrets/list.txt",
        "python train.py --data /data/passwords.txt --epochs 3",
        "python train.py --url https://host:8000/path@2",
    ],
)
def test_values_that_are_not_secret_are_kept(command: str) -> None:
    assert masked_command(tuple(shlex.split(command))) == command


def test_no_command_is_an_empty_text() -> None:
    assert masked_command(()) == ""


_WORDS = {
    "letters": "a" * 1_000_000,
    "assignments": "a=" * 500_000,
    "schemes": "a://" * 250_000,
    "blanks": "bearer" + " " * 1_000_000,
    "quotes": "a='" * 300_000,
    "options": " --a" * 250_000,
    "parameters": "?a" * 500_000,
    "json": '"a' * 500_000,
}


@pytest.mark.parametrize("name", _WORDS)
@pytest.mark.parametrize("before", [("dlprof",), ("bash", "-c"), ()])
def test_a_long_command_costs_little_and_says_that_it_was_cut(
    name: str, before: tuple[str, ...]
) -> None:
    began = time.process_time()
    masked = masked_command((*before, *[_WORDS[name]] * 19) if before else (_WORDS[name],))
    # Once a letter, the shortest of them took minutes.
    assert time.process_time() - began < 10
    assert len(masked) < 70_000
    assert "more characters)" in masked


def test_a_long_word_costs_what_its_length_does() -> None:
    words = [_WORDS[name][:8_000] for name in _WORDS]
    began = time.process_time()
    for word in words:
        masked_command(("bash", "-c", word))
    assert time.process_time() - began < 2


def test_a_password_is_masked_whose_end_was_cut_off() -> None:
    url = f"https://me:{SECRET}{'x' * 10_000}@host/"
    assert SECRET not in masked_command(("train.py", url))
    assert SECRET not in masked_command((f"train.py {url} " + "y" * 70_000,))
