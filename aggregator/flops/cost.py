"""What one call of an op should cost: floating point operations and bytes, or unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

Shape: TypeAlias = tuple[int, ...]

MAX_COUNT = 1 << 56
"""Operations or bytes of one call: more would keep any GPU busy for a minute or far longer."""
DEFAULT_INDEX_BYTES = 8
"""PyTorch's indices are int64."""


@dataclass(frozen=True)
class OpCall:
    """What is known of one call.

    Attributes:
        name: Operator without namespace, ``convolution_backward``.
        shapes: Sizes of the arguments in their order; empty: a number, an option, or a tensor
            without dimensions. Lists of tensors are flattened.
        read_bytes: Size of an element that is read; None: unknown. Unit: bytes.
        write_bytes: Size of an element that is written; None: unknown. Unit: bytes.
        output: Sizes of the first output, where something else in the profile tells them.
        context: Name of the op around it (``conv_transpose2d`` around ``convolution``).
        one_gradient: The backward of a convolution computed one gradient only (the other input
            needs none: the model's first layer).
        lists: Lists of tensors that its kernels go over; 0: not told.
    """

    name: str
    shapes: tuple[Shape, ...] = ()
    read_bytes: float | None = None
    write_bytes: float | None = None
    output: Shape | None = None
    context: str = ""
    one_gradient: bool = False
    lists: int = 0
    tensors: tuple[Shape, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", tuple(shape for shape in self.shapes if shape))

    def argument(self, position: int) -> Shape:
        """Sizes of one argument; empty: none recorded."""
        return self.shapes[position] if position < len(self.shapes) else ()

    def traffic(self, read: int, written: int, other: int = 0) -> int | None:
        """Bytes of elements read and written; None: the element type is unknown.

        Args:
            read: Elements read.
            written: Elements written.
            other: Bytes of indices, masks and the like, whose type is fixed.
        """
        if (read and self.read_bytes is None) or (written and self.write_bytes is None):
            return None
        return round(read * (self.read_bytes or 0) + written * (self.write_bytes or 0)) + other


@dataclass(frozen=True)
class Cost:
    """What a call should cost; None is unknown, never 0.

    Attributes:
        flops: Floating point operations; a fused multiply-add is two. Unit: count.
        num_bytes: Bytes that have to move between memory and the GPU's cores when every tensor
            is read and written once. Unit: bytes.
        is_matrix: Whether the operations are those of a matrix product or convolution.
    """

    flops: int | None = None
    num_bytes: int | None = None
    is_matrix: bool = False

    def __post_init__(self) -> None:
        for name in ("flops", "num_bytes"):
            if not 0 <= (getattr(self, name) or 0) <= MAX_COUNT:
                object.__setattr__(self, name, None)


UNKNOWN = Cost()


def elements(shape: Shape) -> int:
    """Elements of a tensor."""
    return prod(shape)


def broadcast(shapes: tuple[Shape, ...]) -> Shape | None:
    """Shape that tensors broadcast to (NumPy's rule); None: they do not fit each other."""
    length = max((len(shape) for shape in shapes), default=0)
    result = []
    for position in range(1, length + 1):
        sizes = {shape[-position] for shape in shapes if len(shape) >= position} - {1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(reversed(result))
