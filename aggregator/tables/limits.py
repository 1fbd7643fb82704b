"""The limits of a capture and the figures that they make bounds, as every surface shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from msgspec import Struct

from aggregator.profile.limits import (
    FIGURES,
    LIMITS,
    OF_WARNING,
    BoundKind,
    LimitCode,
    bounds_of,
    touched_by,
)
from aggregator.system.replies import doc
from aggregator.system.sqlite_uri import as_text
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import ProfileDatabase
from aggregator.tables.declared.summaries import PERFORMANCE_SUMMARY, RESOURCE_USAGE
from aggregator.texts import say

_VIEW: Final = "view_warnings"
_COUNTED: Final = ("CUDA ", "API ")
"""Messages begin with what was counted: in small letters, or with a name."""
_NOT_SOUGHT: Final = say(
    "The version that wrote this database looked for some limits only: import the profile again"
)
_NOT_OURS: Final = say("The limits of a database of NVIDIA's DLProf are unknown")


class CaptureLimit(Struct, kw_only=True):
    """Something that a capture does not allow to be said."""

    code: LimitCode
    title: str
    sentence: Annotated[str, doc("What was found, with its count and share.")]
    count: Annotated[int, doc("Records, launches, steps or ranks concerned.")]
    share_pct: Annotated[float | None, doc("Share of those that could be; null: unknown.")]
    example: Annotated[str, doc("One of them; empty: none is named.")]
    effect: Annotated[str, doc("What it means for the reader.")]
    recommendation: Annotated[str, doc("What to do.")]
    is_fault: Annotated[
        bool, doc("Whether the capture lacks or contradicts something; else it was made like that.")
    ]
    touches: Annotated[list[str], doc("Names of the figures that it touches, as in bounds.")]


class FigureBound(Struct, kw_only=True):
    """What a figure that a limit touches says of the run."""

    title: str
    bound: Annotated[BoundKind, doc("Whether the run's is at least, at most or not as shown.")]
    limits: Annotated[list[LimitCode], doc("The limits that touch it.")]
    fields: Annotated[
        list[str],
        doc("Fields (resource-usage.busy_pct) and answers (critical-path) that show the figure."),
    ]


class Limits(Struct, kw_only=True):
    """What a capture allows to be said."""

    is_complete: Annotated[bool, doc("Whether all kinds of limits were looked for.")]
    reason: Annotated[str, doc("Why not; empty: they were.")]
    count: Annotated[int, doc("Number of limits.")]
    fault_count: Annotated[int, doc("Number of those that are faults of the capture.")]
    limits: Annotated[list[CaptureLimit], doc("Faults first.")]
    bounds: Annotated[
        dict[str, FigureBound], doc("Touched figures by name; others are as measured.")
    ]


def read_limits(data: AggregationData) -> Limits:
    """What the capture lacks or contradicts, and the figures that are bounds because of it."""
    database = data.database
    found = [*_stored(database), *_of_speed(data)]
    found.sort(key=lambda limit: (not limit.is_fault, tuple(LimitCode).index(limit.code)))
    is_complete = database.has(_VIEW, "share")
    reason = "" if is_complete else _NOT_SOUGHT if database.is_ours else _NOT_OURS
    bounds = bounds_of({limit.code for limit in found})
    return Limits(
        is_complete=is_complete,
        reason=reason,
        count=len(found),
        fault_count=sum(limit.is_fault for limit in found),
        limits=found,
        bounds={
            name: FigureBound(
                title=FIGURES[name].title,
                bound=bound.kind,
                limits=list(bound.limits),
                fields=list(FIGURES[name].fields),
            )
            for name, bound in bounds.items()
        },
    )


def found_limits(database: ProfileDatabase, *figures: str) -> list[CaptureLimit]:
    """Return the limits that the import found and that touch any of the figures."""
    return [limit for limit in _stored(database) if not set(figures).isdisjoint(limit.touches)]


def _stored(database: ProfileDatabase) -> Iterator[CaptureLimit]:
    """The limits that the import found."""
    if not database.has(_VIEW):
        return
    has_share = database.has(_VIEW, "share")
    more = "share, example" if has_share else "NULL, ''"
    rows = database.rows(f"SELECT code, message, count, {more} FROM {_VIEW}")  # noqa: S608
    for code, message, count, share, example in rows:
        if code in OF_WARNING:
            text = as_text(message) or ""
            known = (database.texts.get(text, text), int(count), share, as_text(example) or "")
            yield _limit(OF_WARNING[code], *known)


def _of_speed(data: AggregationData) -> Iterator[CaptureLimit]:
    """The limit of a capture of which no step without profiling is known."""
    if not data.database.is_ours:
        return
    summary = data.read_object(PERFORMANCE_SUMMARY)
    is_measured = summary["step_ns"] or data.read_object(RESOURCE_USAGE)["recorded_span_ns"]
    if summary["bare_step_ns"] is None and summary["given_step_ns"] is None and is_measured:
        text = say("No step without profiling is known: all times are those under the profiler.")
        yield _limit(LimitCode.PROFILED_SPEED, text, int(summary["step_count"] or 0), None, "")


def _limit(
    code: LimitCode, message: str, count: int, share: float | None, example: str
) -> CaptureLimit:
    kind = LIMITS[code]
    pct = None if share is None else round(100.0 * share, 2)
    return CaptureLimit(
        code=code,
        title=kind.title,
        sentence=_sentence(message, count, pct),
        count=count,
        share_pct=pct,
        example=example,
        effect=kind.effect,
        recommendation=kind.recommendation,
        is_fault=kind.is_fault,
        touches=list(touched_by(code)),
    )


def _sentence(message: str, count: int, share_pct: float | None) -> str:
    """Put the count before a message that begins with what was counted."""
    text: Any = message
    if not message[:1].islower() and not message.startswith(_COUNTED):
        return message
    if share_pct is None:
        return say("{count} {message}", count=f"{count:,}", message=text)
    return say("{count} ({share} %) {message}", count=f"{count:,}", share=share_pct, message=text)
