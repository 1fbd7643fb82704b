"""What our own advice says: a problem, what acting on it could win, and what proves it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from aggregator.texts import Text

HIGH_GAIN_PCT = 20.0
MEDIUM_GAIN_PCT = 5.0
LEAST_GAIN_PCT = 1.0
"""What wins less than this share of the step is not worth a line."""


class Severity(StrEnum):
    """How much it matters, by the share of the step that it could win."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Certainty(StrEnum):
    """How sure it is: measured; measured, but the remedy may win less; or a rule of thumb."""

    SURE = "sure"
    LIKELY = "likely"
    POSSIBLE = "possible"


class View(StrEnum):
    """Views of the viewer that evidence may lead to; the page knows these names and no others."""

    OPS = "ops"
    ITERATIONS = "iterations"
    KERNELS_BY_ITERATION = "kernels-by-iteration"
    GPUS = "gpus"
    OP_TYPES = "op-types"


@dataclass(frozen=True)
class Link:
    """A view with its filters, as parameters of the page's address."""

    view: View
    params: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """For the database."""
        return {"view": self.view.value, "params": self.params}


@dataclass(frozen=True)
class Item:
    """One piece of evidence.

    Attributes:
        kind: ``op``, ``kernel``, ``iteration``, ``gpu``, ``call`` or ``setting``.
        name: Name of it, as the profile has it.
        time_ns: Time concerned in the steps looked at; None: not a matter of time. Unit: ns.
        count: How often; None: once.
        link: Where the viewer shows it.
    """

    kind: str
    name: str
    time_ns: int | None = None
    count: int | None = None
    link: Link | None = None

    def as_json(self) -> dict[str, Any]:
        """For the database."""
        return {
            "kind": self.kind,
            "name": self.name,
            "time_ns": self.time_ns,
            "count": self.count,
            "link": None if self.link is None else self.link.as_json(),
        }


@dataclass(frozen=True)
class Proof:
    """A query over the public views whose one row holds the number that the problem rests on.

    Attributes:
        query: SQL without parameters.
        column: Column of its row.
        value: What it says.
    """

    query: str
    column: str
    value: int


@dataclass(frozen=True)
class Finding:
    """One piece of advice.

    Attributes:
        advice: Stable name.
        gain_pct: Share of the step's time that acting on it could win; None: the profile cannot
            tell. Unit: percent.
        problem: One sentence.
        recommendation: One or two sentences.
        reasoning: Where the number comes from.
        certainty: How sure it is.
        needs: What data would make it sure; None: nothing is missing.
        frameworks: What it applies to.
        evidence: The largest pieces first.
        proof: The query.
        link: View that shows all of it; None: none does.
        severity: By ``gain_pct`` unless given.
    """

    advice: str
    gain_pct: float | None
    problem: Text
    recommendation: Text
    reasoning: Text
    certainty: Certainty
    proof: Proof
    frameworks: str = "all"
    needs: Text | None = None
    evidence: tuple[Item, ...] = ()
    link: Link | None = None
    severity: Severity | None = None

    @property
    def level(self) -> Severity:
        """Given, or by what it could win."""
        if self.severity is not None:
            return self.severity
        if self.gain_pct is None or self.gain_pct < MEDIUM_GAIN_PCT:
            return Severity.LOW
        return Severity.HIGH if self.gain_pct >= HIGH_GAIN_PCT else Severity.MEDIUM


@dataclass(frozen=True)
class Unknown:
    """A question that the profile does not answer.

    Attributes:
        advice: Name of the advice that is not given.
        problem: Why it cannot be judged.
        needs: What data would tell.
    """

    advice: str
    problem: Text
    needs: Text


Answer = Finding | Unknown | None
"""A problem; "cannot tell"; or no problem."""
