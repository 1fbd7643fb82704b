"""What a range means, said per distinct range name: the vocabulary all frameworks share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from aggregator.profile import Int32


class RangeKind(IntEnum):
    """Role of a range in the correlation."""

    IGNORED = 0
    """Says nothing about ops; whatever lies in it belongs to the range around it."""
    GROUP = 1
    """A name on the path of the ops in it."""
    OP = 2
    """A framework operation; the outermost one counts."""
    WRAPPER = 3
    """What the autograd engine opens around a backward node; always a unit of its own."""
    NODE = 4
    """A backward node; inside a wrapper it carries the link to the forward op."""
    DATALOADER = 5
    """Waiting for the next batch: a group that is an op as well."""
    CONTAINER = 6
    """An op around other ops: it owns what none of them does, and is on no path."""
    MODULE = 7
    """A call of a module: a group; inside a backward node it computes a checkpoint again."""
    STEP = 8
    """One step, told by the profiler itself: marks iterations, owns nothing, is on no path."""


@dataclass(frozen=True)
class OpText:
    """What a marker that describes its op says (dictionary markers).

    Attributes:
        data_type: Element type of the first tensor; empty: none told.
        input_shapes: JSON list of the tensors' shapes; empty: none told.
        output_shapes: The same for the output, where it can be computed.
        parameters: JSON object of the op's parameters, where told.
        is_input: The data type is that of a module's input: it holds for every op in it.
    """

    data_type: str = ""
    input_shapes: str = ""
    output_shapes: str = ""
    parameters: str = ""
    is_input: bool = False


@dataclass(frozen=True)
class RangeMeaning:
    """Meaning of every distinct range name; arrays have one row per name.

    Attributes:
        kind: ``RangeKind`` values.
        label: Code into ``labels``: the op type, group name or node name, counters normalised.
        labels: Distinct labels.
        texts: What dictionary markers say, by row of the name.
        op_names: Full op names from call stacks, by row of the name of the *enclosing* marker.
        stack_traces: Call sites, by row of the name of the enclosing marker.
        op_types: Op type by label where it is not the label itself.
        module_texts: What the range of a module says of the op in it, by row of the name.
        has_dictionary_markers: Whether ops come from dictionary markers.
        programs: Labels of ranges that each stand for one run of a compiled program.
        is_graph: Whether ops are nodes of a graph. A node's name is unique in its graph, so
            executions of one name are one op; slashes in it make groups; and of nested nodes
            the innermost counts (PyTorch: the place in the step, none, the outermost).
        overhead: Labels of groups whose ops are no part of the model.
        helped: Rows of the names of ranges that other threads may work for.
        key_ops: Labels of ops that run once per iteration.
        combines_backward: Whether a backward pass without ranges is one op.
    """

    kind: Int32
    label: Int32
    labels: tuple[str, ...]
    texts: dict[int, OpText] = field(default_factory=dict)
    op_names: dict[int, str] = field(default_factory=dict)
    stack_traces: dict[int, str] = field(default_factory=dict)
    op_types: dict[int, str] = field(default_factory=dict)
    module_texts: dict[int, OpText] = field(default_factory=dict)
    has_dictionary_markers: bool = False
    programs: frozenset[str] = frozenset()
    is_graph: bool = False
    overhead: frozenset[str] = frozenset()
    helped: frozenset[int] = frozenset()
    key_ops: frozenset[str] = frozenset()
    combines_backward: bool = False

    def op_type(self, label: int) -> str:
        """Op type of a label."""
        return self.op_types.get(label, self.labels[label])


class LabelCodes:
    """Numbers labels in order of first use."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, label: str) -> int:
        """Code of a label, new or known."""
        return self._codes.setdefault(label, len(self._codes))

    def labels(self) -> tuple[str, ...]:
        """All labels by code."""
        return tuple(self._codes)
