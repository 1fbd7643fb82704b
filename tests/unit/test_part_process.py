"""A part of work in a process of its own."""

from __future__ import annotations

import sys

import pytest

from aggregator.errors import CorruptProfileError
from aggregator.jobs.part_process import run_apart


def test_a_process_that_ends_before_it_reads_its_request_is_said_to_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    longer_than_a_pipe = {"source": "x" * 1_000_000}

    with pytest.raises(CorruptProfileError, match="The process that read the file ended"):
        run_apart("convert", longer_than_a_pipe, 60.0)
