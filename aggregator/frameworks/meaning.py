"""The meaning of ranges, per distinct range name, in the terms that all frameworks share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from aggregator.frameworks.inductor import CompiledKernel
from aggregator.profile.arrays import Int32


class RangeKind(IntEnum):
    """Role of a range in the correlation."""

    IGNORED = 0
    """Not an op or group; its content belongs to the range around it."""
    GROUP = 1
    """Part of the path of the ops in it."""
    OP = 2
    """A framework operation; the outermost of nested ones is used."""
    WRAPPER = 3
    """Opened by the autograd engine around a backward node; always a separate unit."""
    NODE = 4
    """A backward node; inside a wrapper it links to the forward op."""
    DATALOADER = 5
    """Waiting for the next batch: both a group and an op."""
    CONTAINER = 6
    """An op around other ops: it owns only work outside them, and is not part of paths."""
    MODULE = 7
    """A call of a module: a group; inside a backward node it recomputes a checkpoint."""
    STEP = 8
    """A step marked by the profiler: an iteration, not part of paths, owning nothing."""
    COMPILED = 9
    """A kernel of compiled code, with its own path: always a separate unit."""


@dataclass(frozen=True)
class OpText:
    """Description of an op by a dictionary marker."""

    data_type: str = ""  # Element type of the first tensor; empty: unknown.
    input_shapes: str = ""  # JSON list of the tensors' shapes; empty: unknown.
    output_shapes: str = ""  # JSON list of the output's shapes, if it can be computed.
    parameters: str = ""  # JSON object of the op's parameters; empty: unknown.
    # The data type is that of a module's input, and applies to every op in it.
    is_input: bool = False


@dataclass(frozen=True)
class RangeMeaning:
    """Meaning of every distinct range name; arrays have one row per name."""

    kind: Int32  # ``RangeKind`` values.
    label: Int32  # Code into ``labels``: the op type, group name or node name, counters replaced.
    labels: tuple[str, ...]  # Distinct labels.
    # Descriptions by dictionary markers, by row of the name.
    texts: dict[int, OpText] = field(default_factory=dict)
    # Full op names from call stacks, by row of the name of the *enclosing* marker.
    op_names: dict[int, str] = field(default_factory=dict)
    # Call sites, by row of the name of the enclosing marker.
    stack_traces: dict[int, str] = field(default_factory=dict)
    # Op type by label, if it is not the label itself.
    op_types: dict[int, str] = field(default_factory=dict)
    # Descriptions by the ranges of modules of the op in them, by row of the name.
    module_texts: dict[int, OpText] = field(default_factory=dict)
    # What the compiler recorded about kernels, by row of the name.
    compiled: dict[int, CompiledKernel] = field(default_factory=dict)
    has_dictionary_markers: bool = False  # Whether ops come from dictionary markers.
    # Labels of ranges that each stand for one run of a compiled program.
    programs: frozenset[str] = frozenset()
    # Whether ops are nodes of a graph. A node's name is unique in its graph, so executions of one
    # name are one op; slashes in it separate groups; of nested nodes the innermost is used.
    # (PyTorch: the position in the step, no groups, the outermost.)
    is_graph: bool = False
    overhead: frozenset[str] = frozenset()  # Labels of groups whose ops are not part of the model.
    # Rows of the names of ranges that other threads may work for.
    helped: frozenset[int] = frozenset()
    key_ops: frozenset[str] = frozenset()  # Labels of ops that run once per iteration.
    combines_backward: bool = False  # Whether a backward pass without ranges is one op.
    # Labels of groups that may run forward and backward passes before the work of their own.
    closures: frozenset[str] = frozenset()

    def op_type(self, label: int) -> str:
        """Return the op type of a label."""
        return self.op_types.get(label, self.labels[label])
