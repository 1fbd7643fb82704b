"""Every answer about an aggregation at its address: its function, its parameters, its reply.

An answer is a function of ``AggregationData`` whose parameters with a description are those of
its address, and which returns a ``msgspec.Struct``. The API, its description, notebooks and
assistants read all of this from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from inspect import getdoc
from types import NoneType, UnionType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from aggregator.errors import InvalidValueError, UnknownAnswerError
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.request import check_parameters
from aggregator.texts import say

_LARGEST: Final = 2**62
"""Times further out would overflow when they are counted from the start of a window."""
_PART: Final = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Parameter:
    """A parameter of an answer."""

    name: str
    note: msgspec.Meta  # Its meaning and limits.
    type: type = str
    default: Any = None
    is_required: bool = False

    def parse(self, raw: str) -> Any:
        """Read the value of a request.

        Raises:
            InvalidValueError: It does not fit the type.
        """
        if self.type is bool:
            if raw not in ("0", "1"):
                raise InvalidValueError(
                    say("{name} must be 0 or 1.", name=self.name), parameter=self.name
                )
            return raw == "1"
        if issubclass(self.type, StrEnum):
            return self.type(choice(self.name, raw, tuple(self.type)))
        return self._whole(raw) if self.type is int else raw

    def _whole(self, raw: str) -> int:
        number = whole_number(self.name, raw)
        least, most = self.note.ge, self.note.le
        if (least is not None and number < least) or (most is not None and number > most):
            raise InvalidValueError(
                say(
                    "{name} must be from {least} to {most}, not {number}.",
                    name=self.name,
                    least="-∞" if least is None else least,
                    most="∞" if most is None else most,
                    number=number,
                ),
                parameter=self.name,
            )
        return number


def choice(name: str, raw: str, known: Sequence[str]) -> str:
    """Read the value of a parameter that is one of few words.

    Raises:
        InvalidValueError: It is none of them.
    """
    if raw not in known:
        raise InvalidValueError(
            say(
                "{name} must be one of {names}, not {raw!r}.",
                name=name,
                names=", ".join(known),
                raw=raw,
            )
        )
    return raw


def whole_number(name: str, raw: str) -> int:
    """Read the value of a parameter.

    Raises:
        InvalidValueError: It is no whole number.
    """
    digits = raw.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20) or (
        not -_LARGEST <= int(raw) < _LARGEST
    ):
        raise InvalidValueError(
            say("{name} must be a whole number, not {raw!r}.", name=name, raw=raw)
        )
    return int(raw)


@dataclass(frozen=True)
class Answer:
    """An answer about an aggregation; its module is loaded when it is first used."""

    address: str  # Below an aggregation.
    function: str  # Module of the engine, and function.

    @cached_property
    def read(self) -> Callable[..., msgspec.Struct]:
        """The function."""
        module, _, name = self.function.rpartition(".")
        found: Callable[..., msgspec.Struct] = getattr(import_module(f"aggregator.{module}"), name)
        return found

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.read, include_extras=True)

    @property
    def reply(self) -> type[msgspec.Struct]:
        """The type of the reply."""
        found: type[msgspec.Struct] = self._hints["return"]
        return found

    @property
    def shows_events(self) -> bool:
        """Whether it is of the timeline, which is prepared in a folder that it takes."""
        return "folder" in self._hints

    @property
    def meaning(self) -> str:
        """What it answers, in the words of its function."""
        return re.split("\n\n(?:Args|Raises):", getdoc(self.read) or "")[0]

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The query parameters of the address, by name."""
        return {parameter.name: parameter for parameter in self._declared()}

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The parts of the address that the function takes; others choose the aggregation's op."""
        return tuple(name for name in _PART.findall(self.address) if name in self._hints)

    def match(self, address: str) -> dict[str, str | int] | None:
        """Return the parts of an address; None: it is of another answer."""
        found = re.fullmatch(_PART.sub(r"(?P<\1>.+)", self.address), address)
        return None if found is None else dict(found.groupdict())

    def _declared(self) -> Iterator[Parameter]:
        defaults = self.read.__kwdefaults__ or {}
        for name, kind, note in self._annotated:
            if isinstance(note, Mapping):
                yield from (Parameter(key, msgspec.Meta(description=note[key])) for key in note)
            else:
                is_required = name not in defaults
                yield Parameter(name, note, _plain_type(kind), defaults.get(name), is_required)

    @cached_property
    def _annotated(self) -> list[tuple[str, Any, Any]]:
        """The described parameters of the function; a mapping holds several of the address."""
        found = [(name, get_args(hint)) for name, hint in self._hints.items()]
        return [
            (name, arguments[0], arguments[1])
            for name, arguments in found
            if get_origin(self._hints[name]) is Annotated
        ]

    def arguments(self, params: Mapping[str, str]) -> dict[str, Any]:
        """Read the query parameters of a request.

        Raises:
            InvalidValueError: One is missing, or does not fit its type.
        """
        values = {
            name: parameter.parse(params.get(name, ""))
            for name, parameter in self.parameters.items()
            if name in params or parameter.is_required
        }
        for name, _, note in self._annotated:
            if isinstance(note, Mapping):
                values[name] = {key: values.pop(key) for key in note if key in values}
        return values


def ask(data: AggregationData, address: str, params: Mapping[str, str]) -> msgspec.Struct:
    """Answer a request by its address, as a viewer does.

    Args:
        data: The aggregation.
        address: Below the aggregation: ``critical-path``, ``ops/CONV2D_1/calls``.
        params: Query parameters.

    Raises:
        DlprofError: There is no such answer or parameter, or it cannot be given.
    """
    for answer in ANSWERS.values():
        found = answer.match(address)
        if found is not None:
            check_parameters(params, answer.parameters)
            parts = {name: found.pop(name) for name in answer.parts}
            return answer.read(data.narrowed(found), **answer.arguments(params), **parts)
    raise UnknownAnswerError(
        say("There is no answer '{name}'.", name=address),
        hint=say("Known: {names}.", names=", ".join(ANSWERS)),
    )


def _plain_type(hint: Any) -> type:
    """Return the type of a parameter that may be left out."""
    if isinstance(hint, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    found: type = hint
    return found


_DECLARED: Final[Iterable[Answer]] = (
    Answer("verdict", "tables.verdict.read_verdict"),
    Answer("limits", "tables.limits.read_limits"),
    Answer("recommendations", "answers.summaries.read_recommendations"),
    Answer("top-kernels", "answers.summaries.read_top_kernels"),
    Answer("kernels/{kernel}/launches", "answers.calls.read_kernel_launches"),
    Answer("ops/{op_id}/calls", "answers.calls.read_op_calls"),
    Answer("kernels/{kernel}/ncu", "answers.single_launches.read_kernel_ncu"),
    Answer("ops/{op_id}/ncu", "answers.single_launches.read_op_ncu"),
    Answer("ops/{op_id}/samples", "answers.single_launches.read_op_samples"),
    Answer("memory", "answers.gpu_memory.read_memory_summary"),
    Answer("memory/curve", "answers.gpu_memory.read_memory_curve"),
    Answer("memory/alive", "answers.gpu_memory.read_memory_alive"),
    Answer("timeline", "answers.timeline.read_lanes"),
    Answer("timeline/range", "answers.timeline.read_range"),
    Answer("timeline/hits", "answers.timeline.read_hits"),
    Answer("timeline/event", "answers.timeline.read_event"),
    Answer("figures/{name}", "answers.figures.read_figure"),
    Answer("can-replay", "answers.replay.read_can_replay"),
    Answer("critical-path", "answers.replay.read_critical_path"),
    Answer("op-sensitivity", "answers.replay.read_op_sensitivity"),
    Answer("what-if", "answers.replay.read_what_if"),
    Answer("what-if/changes", "answers.replay.read_changes"),
    Answer("stragglers", "answers.replay.read_stragglers"),
    Answer("trials", "answers.trials.read_trials"),
)
ANSWERS: Final[Mapping[str, Answer]] = {answer.address: answer for answer in _DECLARED}
"""Each answer at its address below an aggregation."""
