"""The programs of the exam, their interventions, and what dlprof is asked about each.

A question is a command of dlprof: ``advise NAME``, the saving that this advice promises for what it
says to do, or ``whatif`` with changes. Each was chosen before its intervention was measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Base:
    """A program as it is captured, and what is changed in it."""

    program: str
    words: str  # Options of the base, which all runs have.
    changes: tuple[tuple[str, str], ...]  # Further options, and the question.
    ranks: int = 1


PLAN = {
    name: Base(**(base | {"changes": tuple(map(tuple, base["changes"]))}))
    for name, base in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")).items()
}
"""Bases by name."""
