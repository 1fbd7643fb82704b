"""The changes of a what-if by the names that commands, addresses and notebooks have for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aggregator.errors import InvalidValueError
from aggregator.replay.changes import (
    MAX_FACTOR,
    MIN_FACTOR,
    channels_last,
    fuse,
    graph_launch,
    half_precision,
    no_synchronization,
    remove,
    roofline,
    speed_up,
    tensor_cores,
)
from aggregator.replay.communication import (
    bucket_size,
    link_speed,
    no_communication,
    overlap_communication,
)
from aggregator.replay.loading import data_ready
from aggregator.replay.scenario import Change
from aggregator.texts import say

MOST_CHANGES: Final = 50
_MIN_NUMBER, _MAX_NUMBER = 1e-3, 1e6


def _speed_up(text: str) -> Change:
    name, _, number = text.rpartition("=")
    try:
        factor = float(number.lower().removesuffix("x"))
    except ValueError:
        factor = 0.0
    if not name or not MIN_FACTOR <= factor <= MAX_FACTOR:
        raise InvalidValueError(
            say("The speed-up '{text}' is not NAME=Kx.", text=text),
            hint=say(
                "For example {example}, with a factor of {least} to {most}.",
                example="conv2d=2x",
                least=MIN_FACTOR,
                most=f"{MAX_FACTOR:g}",
            ),
        )
    return speed_up(name, factor)


def _number(make: Callable[[float], Change], unit: str) -> Callable[[str], Change]:
    def parse(text: str) -> Change:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not _MIN_NUMBER <= value <= _MAX_NUMBER:
            raise InvalidValueError(
                say("'{text}' is not a number of {unit} above 0.", text=text, unit=unit)
            )
        return make(value)

    return parse


def _switch(change: Change) -> Callable[[str], Change]:
    return lambda _: change


LISTS: Final[Mapping[str, Callable[[str], Change]]] = {
    "speedup": _speed_up,
    "remove": remove,
    "fuse": fuse,
}
"""Changes that are given any number of times."""
OPTIONAL: Final[Mapping[str, Callable[[str], Change]]] = {
    "no_sync": no_synchronization,
    "roofline": roofline,
}
"""Changes of everything, or of what a name selects."""
NUMBERS: Final[Mapping[str, Callable[[str], Change]]] = {
    "link_speed": _number(link_speed, "GB/s"),
    "bucket_mb": _number(bucket_size, "MiB"),
}
SWITCHES: Final[Mapping[str, Change]] = {
    "data_ready": data_ready,
    "graph_launch": graph_launch,
    "overlap_communication": overlap_communication,
    "no_communication": no_communication,
    "tensor_cores": tensor_cores,
    "half_precision": half_precision,
    "channels_last": channels_last,
}
_PARSERS: Final = (
    dict(LISTS)
    | dict(OPTIONAL)
    | dict(NUMBERS)
    | {name: _switch(change) for name, change in SWITCHES.items()}
)


def named_changes(wanted: Mapping[str, Sequence[str]]) -> list[Change]:
    """The changes in the order of their names above.

    Args:
        wanted: Values of each name; those of switches do not matter.

    Raises:
        InvalidValueError: A value is none.
    """
    for name, values in wanted.items():
        if len(values) > MOST_CHANGES:
            raise InvalidValueError(
                say("{name} must name at most {most} changes.", name=name, most=MOST_CHANGES)
            )
    return [parse(value) for name, parse in _PARSERS.items() for value in wanted.get(name, ())]
