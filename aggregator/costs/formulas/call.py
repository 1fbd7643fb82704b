"""A call of an operator, as far as it was recorded, and its cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any, NamedTuple, TypeAlias

from aggregator.frameworks.serving import StepLengths
from aggregator.kernels.element_types import element_size
from aggregator.system.untrusted_json import read_list

Shape: TypeAlias = tuple[int, ...]

MAX_COUNT = 1 << 56
"""Limit of the operations or bytes of one call: more would keep any GPU busy for a minute."""
DEFAULT_INDEX_BYTES = 8
"""PyTorch's indices are int64."""


class Argument(NamedTuple):
    """A tensor of a call."""

    shape: Shape  # Sizes.
    data_type: str = ""  # PyTorch's name of its element type; empty: not recorded.

    @property
    def is_packed(self) -> bool:
        """Whether two elements share each recorded one."""
        return self.data_type.startswith("float4")


@dataclass(frozen=True)
class OpCall:
    """One call of an operator."""

    name: str  # Operator without namespace, ``convolution_backward``.
    # Sizes of the arguments in order; empty: a number, an option, or a tensor without dimensions.
    # Lists of tensors are flattened.
    shapes: tuple[Shape, ...] = ()
    read_bytes: float | None = None  # Size of an element that is read; None: unknown. Unit: bytes.
    # Size of an element that is written; None: unknown. Unit: bytes.
    write_bytes: float | None = None
    output: Shape | None = None  # Sizes of the first output; None: unknown.
    context: str = ""  # Name of the op around it (``conv_transpose2d`` around ``convolution``).
    # The backward of a convolution computed only one gradient, as in the first layer of a model.
    one_gradient: bool = False
    lists: int = 0  # Number of lists of tensors that its kernels process; 0: unknown.
    full_name: str = ""  # With its namespace, ``vllm::moe_forward``; empty: not known.
    # Element types of the arguments in order; empty: not recorded.
    types: tuple[str, ...] = ()
    parameters: tuple[tuple[str, Any], ...] = ()  # Parameters by name, as far as recorded.
    # Whether the kernels of an attention leave out the keys after each query; None: unknown.
    is_causal: bool | None = None
    inner: tuple[Argument, ...] = ()  # Tensors of the operators that it calls.
    lengths: StepLengths | None = None  # Of the sequences of the step around it; None: unknown.

    @cached_property
    def tensors(self) -> tuple[Shape, ...]:
        """Sizes of the arguments that have sizes."""
        return tuple(shape for shape in self.shapes if shape)

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The tensors with sizes, and their types."""
        types = self.types if len(self.types) == len(self.shapes) else ("",) * len(self.shapes)
        return tuple(Argument(*pair) for pair in zip(self.shapes, types, strict=True) if pair[0])

    @property
    def recorded_types(self) -> tuple[str, str]:
        """Types of the elements read and written, as recorded; empty: unknown.

        Conditions and indices are not what an operator computes with.
        """
        known = [tensor.data_type for tensor in self.arguments]
        first = next((kind for kind in known if "float" in kind), next(iter(known), ""))
        is_copy = self.name in ("copy", "copy_") and len(known) > 1
        return (known[1], known[0]) if is_copy else (first, first)

    def bytes_of(self, *tensors: Argument) -> int | None:
        """Bytes of tensors; None: a type is unknown. The kernels' types stand for unrecorded."""
        sizes = [
            (element_size(tensor.data_type) or self.read_bytes, elements(tensor.shape))
            for tensor in tensors
        ]
        if any(size is None for size, _ in sizes):
            return None
        return round(sum((size or 0) * count for size, count in sizes))

    def argument(self, position: int) -> Shape:
        """Sizes of one argument; empty: not recorded."""
        return self.shapes[position] if position < len(self.shapes) else ()

    def traffic(self, read: int, written: int, other: int = 0) -> int | None:
        """Bytes of elements read and written; None: the element type is unknown.

        Args:
            read: Elements read.
            written: Elements written.
            other: Bytes of indices and masks, whose type is fixed.
        """
        if (read and self.read_bytes is None) or (written and self.write_bytes is None):
            return None
        return round(read * (self.read_bytes or 0) + written * (self.write_bytes or 0)) + other


@dataclass(frozen=True)
class Cost:
    """Cost of a call; None means unknown, never 0."""

    flops: int | None = None  # Floating point operations; a fused multiply-add is two. Unit: count.
    # Bytes moved between memory and the GPU's cores if every tensor is read or written once. Unit:
    # bytes.
    num_bytes: int | None = None
    is_matrix: bool = False  # Whether the operations are those of a matrix product or convolution.
    operand: str = ""  # Type in which recorded operands are multiplied; empty: unknown.
    reason: str = ""  # Why a value is unknown, if the formula knows; empty: by what is missing.

    def __post_init__(self) -> None:
        for name in ("flops", "num_bytes"):
            if not 0 <= (getattr(self, name) or 0) <= MAX_COUNT:
                object.__setattr__(self, name, None)


UNKNOWN = Cost()

Formula: TypeAlias = Callable[[OpCall], Cost]


def named(names: str, formula: Formula) -> dict[str, Formula]:
    """One formula for several operators, separated by blanks."""
    return dict.fromkeys(names.split(), formula)


def per_element(
    operations: int | None, read: int = 1, written: int = 1, other: int = 0, argument: int = 0
) -> Formula:
    """A formula whose values are proportional to the elements of one argument.

    Args:
        operations: Operations per element; None: unknown.
        read: Elements read per element.
        written: Elements written per element.
        other: Bytes of indices and masks per element.
        argument: Position of the argument.
    """

    def count(call: OpCall) -> Cost:
        size = elements(call.argument(argument))
        flops = None if operations is None else operations * size
        return Cost(flops, call.traffic(read * size, written * size, other * size))

    return count


def elements(shape: Shape) -> int:
    """Elements of a tensor."""
    return prod(shape)


def broadcast(shapes: tuple[Shape, ...]) -> Shape | None:
    """Shape that tensors broadcast to (NumPy's rule); None: they cannot be broadcast."""
    length = max((len(shape) for shape in shapes), default=0)
    result = []
    for position in range(1, length + 1):
        sizes = {shape[-position] for shape in shapes if len(shape) >= position} - {1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(reversed(result))


@lru_cache(maxsize=65536)
def sizes_of(text: str) -> tuple[Shape, ...]:
    """Sizes of a call's arguments; empty for an argument without sizes.

    Args:
        text: JSON list, ``[[64, 3, 224, 224], [64, 3, 7, 7], [], []]``.
    """
    result = []
    for shape in read_list(text):
        is_shape = isinstance(shape, list) and all(
            type(size) is int and size >= 0 for size in shape
        )
        result.append(tuple(shape) if is_shape else ())
    return tuple(result)
