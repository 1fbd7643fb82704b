"""Every answer about an aggregation at its address: its function, its parameters, its reply.

An answer is a function of ``AggregationData`` whose parameters with a description are those of
its address, and which returns a ``msgspec.Struct``. The API, its description, notebooks and
assistants read all of this from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from inspect import getdoc
from types import NoneType, UnionType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from aggregator.errors import InvalidValueError
from aggregator.tables.aggregation_data import AggregationData
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
        return whole_number(self.name, raw) if self.type is int else raw


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
    function: str  # Module of this package, and function.
    needs_events: bool = False  # A database of NVIDIA's has no single events; a copy of it has.

    @cached_property
    def read(self) -> Callable[..., msgspec.Struct]:
        """The function."""
        module, _, name = self.function.partition(".")
        found: Callable[..., msgspec.Struct] = getattr(
            import_module(f"aggregator.answers.{module}"), name
        )
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
    def meaning(self) -> str:
        """What it answers, in the words of its function."""
        return re.split("\n\n(?:Args|Raises):", getdoc(self.read) or "")[0]

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the address, by name; those in braces are parts of it."""
        return {one.name: one for one in self._declared() if one.name not in self.parts}

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The names in braces of the address."""
        return tuple(_PART.findall(self.address))

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

    def ask(self, data: AggregationData, params: Mapping[str, str], **more: Any) -> msgspec.Struct:
        """Answer a request.

        Args:
            data: The aggregation.
            params: Query parameters, as text.
            more: Parts of the address, and what else the function takes.

        Raises:
            DlprofError: A parameter does not fit, or there is no answer.
        """
        return self.read(data, **self.arguments(params), **more)


def _plain_type(hint: Any) -> type:
    """Return the type of a parameter that may be left out."""
    if isinstance(hint, UnionType):
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    found: type = hint
    return found


_DECLARED: Final[Iterable[Answer]] = (
    Answer("can-replay", "replay.read_can_replay"),
    Answer("critical-path", "replay.read_critical_path"),
    Answer("op-sensitivity", "replay.read_op_sensitivity"),
    Answer("what-if", "replay.read_what_if"),
    Answer("what-if/changes", "replay.read_changes"),
    Answer("stragglers", "replay.read_stragglers"),
)
ANSWERS: Final[Mapping[str, Answer]] = {one.address: one for one in _DECLARED}
"""Each answer at its address below an aggregation."""
