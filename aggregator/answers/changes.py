"""The changes of a what-if, declared once for the command, the API, the page and assistants.

To add one, write the change in ``aggregator/replay`` and its row in ``CHANGES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aggregator.errors import InvalidValueError
from aggregator.replay import changes, communication
from aggregator.replay.loading import data_ready
from aggregator.replay.scenario import Change
from aggregator.texts import Text, say

MOST_CHANGES: Final = 50
WORK: Final = "communication, kernels, copies, sets, an op type, Op ID, op or kernel name"
"""What NAME stands for."""
_MIN_NUMBER, _MAX_NUMBER = 1e-3, 1e6


class Takes(StrEnum):
    """The value of a change, and so the control of the page."""

    SWITCH = "switch"
    OP = "op"  # A switch, or the name of an op that it is limited to.
    NAMES = "names"  # Given any number of times.
    FACTORS = "factors"  # NAME=Kx, any number of times.
    NUMBER = "number"
    RANK = "rank"  # Ranks are replayed together, so it goes with no other change.


@dataclass(frozen=True)
class DeclaredChange:
    """A change that can be asked for."""

    name: str  # In addresses and notebooks; the option has hyphens.
    takes: Takes
    label: Text  # On the page.
    meaning: Text
    # Makes the change from the value; from "" where a switch is only turned on.
    make: Callable[[str], Change] | None = None
    argument: str = ""  # As the usage of the command names the value.
    unit: str = ""  # Of a number.
    is_bound: bool = False  # Whether the step is only a bound: other kernels would run.
    aliases: tuple[str, ...] = ()  # Further spellings of the option.

    @property
    def is_list(self) -> bool:
        """Whether it may be given several times."""
        return self.takes in (Takes.NAMES, Takes.FACTORS)

    @property
    def is_switch(self) -> bool:
        """Whether it may be given without a value."""
        return self.takes in (Takes.SWITCH, Takes.OP)

    @property
    def notes(self) -> str:
        """The meaning as a line of help: what its argument is, and whether it is a bound."""
        names = f"; NAME: {WORK}" if self.takes is Takes.FACTORS else ""
        return f"{self.meaning.removesuffix('.')}{names}{' (a bound)' if self.is_bound else ''}"


def address_notes() -> Mapping[str, str]:
    """Return the meaning of each change as a parameter of an address."""
    forms = {
        Takes.SWITCH: "1",
        Takes.OP: "1, or {}",
        Takes.NAMES: "{}, separated by semicolons",
        Takes.FACTORS: "{}, separated by semicolons",
    }
    return {
        name: f"{forms.get(change.takes, '{}').format(change.argument)}: {change.notes}."
        for name, change in CHANGES.items()
    }


def _factor(text: str) -> Change:
    name, _, number = text.rpartition("=")
    try:
        factor = float(number.lower().removesuffix("x"))
    except ValueError:
        factor = 0.0
    if not name or not changes.MIN_FACTOR <= factor <= changes.MAX_FACTOR:
        raise InvalidValueError(
            say("The speed-up '{text}' is not NAME=Kx.", text=text),
            hint=say(
                "For example {example}, with a factor of {least} to {most}.",
                example="conv2d=2x",
                least=changes.MIN_FACTOR,
                most=f"{changes.MAX_FACTOR:g}",
            ),
        )
    return changes.speed_up(name, factor)


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


_ROWS: Final = (
    DeclaredChange(
        "speedup",
        Takes.FACTORS,
        say("Faster work"),
        say("Work on the GPU is K times faster."),
        _factor,
        argument="NAME=Kx",
        aliases=("--speed-up",),
    ),
    DeclaredChange(
        "remove",
        Takes.NAMES,
        say("Left out"),
        say("Work on the GPU that does not run any more."),
        changes.remove,
        argument="NAME",
    ),
    DeclaredChange(
        "fuse",
        Takes.NAMES,
        say("Launched by one call"),
        say("One call launches all of this work in a step."),
        changes.fuse,
        argument="NAME",
        is_bound=True,
    ),
    DeclaredChange(
        "no_sync",
        Takes.OP,
        say("No synchronizations"),
        say("No call waits for the GPU; with OP only the calls of that op do not."),
        changes.no_synchronization,
        argument="OP",
    ),
    DeclaredChange(
        "roofline",
        Takes.OP,
        say("All kernels at the roofline"),
        say("Work on the GPU at the peak rates of the GPU; with OP only that of this op."),
        changes.roofline,
        argument="OP",
        is_bound=True,
    ),
    DeclaredChange(
        "link_speed",
        Takes.NUMBER,
        say("Link between GPUs"),
        say("Data between GPUs moves at so many GB/s."),
        _number(communication.link_speed, "GB/s"),
        argument="GBPS",
        unit="GB/s",
        is_bound=True,
    ),
    DeclaredChange(
        "bucket_mb",
        Takes.NUMBER,
        say("Buckets of gradients"),
        say("Gradients are reduced in buckets of so many MiB."),
        _number(communication.bucket_size, "MiB"),
        argument="MIB",
        unit="MiB",
        is_bound=True,
    ),
    DeclaredChange(
        "data_ready",
        Takes.SWITCH,
        say("No data-loading time"),
        say("The data loader never makes the step wait."),
        _switch(data_ready),
    ),
    DeclaredChange(
        "graph_launch",
        Takes.SWITCH,
        say("One launch (CUDA graph)"),
        say("One call launches a step as a CUDA graph."),
        _switch(changes.graph_launch),
    ),
    DeclaredChange(
        "overlap_communication",
        Takes.SWITCH,
        say("Communication fully overlapped"),
        say("Data between GPUs moves beside the computation."),
        _switch(communication.overlap_communication),
    ),
    DeclaredChange(
        "no_communication",
        Takes.SWITCH,
        say("No communication"),
        say("Moving data between GPUs takes no time."),
        _switch(communication.no_communication),
    ),
    DeclaredChange(
        "tensor_cores",
        Takes.SWITCH,
        say("Tensor Cores"),
        say("Matrix products of FP32 run as TF32."),
        _switch(changes.tensor_cores),
        is_bound=True,
    ),
    DeclaredChange(
        "half_precision",
        Takes.SWITCH,
        say("Half precision"),
        say("Matrix products with 16 bits."),
        _switch(changes.half_precision),
        is_bound=True,
    ),
    DeclaredChange(
        "channels_last",
        Takes.SWITCH,
        say("Channels last"),
        say("Nothing converts tensor layouts for convolutions, and batch normalization is faster."),
        _switch(changes.channels_last),
        is_bound=True,
    ),
    DeclaredChange(
        "rank_as_median",
        Takes.RANK,
        say("Rank as fast as the median"),
        say("This rank is as fast as the median of the others; no other change with it."),
        argument="RANK",
    ),
)
CHANGES: Final[Mapping[str, DeclaredChange]] = {row.name: row for row in _ROWS}
"""Every change by its name, in the order in which changes are applied to a profile."""


def make_changes(values: Mapping[str, Sequence[str]]) -> list[Change]:
    """Make the changes of a what-if but that of a rank, in the order of the table.

    Raises:
        InvalidValueError: A value does not fit its change.
    """
    for name, given in values.items():
        if len(given) > MOST_CHANGES:
            raise InvalidValueError(
                say("{name} must name at most {most} changes.", name=name, most=MOST_CHANGES)
            )
    return [
        change.make(value)
        for name, change in CHANGES.items()
        if change.make is not None
        for value in values.get(name, ())
    ]


def parse_changes(params: Mapping[str, str]) -> list[Change]:
    """Make the changes of a request, in which semicolons separate the values of a list.

    Raises:
        InvalidValueError: A value does not fit its change.
    """
    values: dict[str, list[str]] = {}
    for name, change in CHANGES.items():
        text = params.get(name, "" if change.is_list else "0")
        if change.is_list:
            values[name] = [part.strip() for part in text.split(";") if part.strip()]
        elif change.takes is Takes.SWITCH and text not in ("0", "1"):
            raise InvalidValueError(say("{name} must be 0 or 1.", name=name))
        elif text != "0":
            values[name] = ["" if change.is_switch and text == "1" else text]
    return make_changes(values)
