"""Arguments and results of the formulas of PyProf's ops, as PyProf writes them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from aggregator.costs.formulas.call import Shape, broadcast
from aggregator.kernels.traits import ASSUMED_CAPABILITY, kernel_traits

Args = list[dict[str, Any]]


@dataclass(frozen=True)
class Kernel:
    """Properties of a kernel that its part of an op's cost depends on."""

    name: str  # Short name.
    long_name: str  # Demangled name.
    direction: str  # ``fprop`` or ``bprop``.
    sub: int  # Number among the kernels of its op; calls with one sequence number share it.
    in_call: int  # Number among the kernels of its call.
    grid: str  # Blocks, ``80,1,1``.

    @property
    def is_forward(self) -> bool:
        """Whether it is of the forward pass."""
        return self.direction == "fprop"

    @property
    def tensor_cores(self) -> int:
        """1 if it runs Tensor Core instructions."""
        return int(kernel_traits(self.long_name).tensor_cores(ASSUMED_CAPABILITY).uses_tc is True)


@dataclass(frozen=True)
class OpCost:
    """Values of a kernel's columns."""

    op: str  # Name to show.
    params: str  # Parameters.
    tc: str  # 1 or 0; ``-``: the op cannot use Tensor Cores.
    flops: int | None  # None: unknown.
    num_bytes: int | None  # None: unknown. Unit: bytes.


def unnamed(args: Args) -> Args:
    """Return the positional arguments."""
    return [arg for arg in args if arg.get("name", "") == ""]


def require_consistent(*, fits: bool) -> None:
    """Check that the values of a marker fit each other.

    Raises:
        UnknownCallError: They do not, so the cost is unknown.
    """
    if not fits:
        raise UnknownCallError


_TYPES = {
    "uint8": (1, "uint8"),
    "int8": (1, "int8"),
    "byte": (1, "uint8"),
    "char": (1, "int8"),
    "bool": (1, "bool"),
    "float16": (2, "fp16"),
    "half": (2, "fp16"),
    "bfloat16": (2, "bf16"),
    "int16": (2, "int16"),
    "short": (2, "int16"),
    "float32": (4, "fp32"),
    "float": (4, "fp32"),
    "int32": (4, "int32"),
    "int": (4, "int32"),
    "int64": (8, "int64"),
    "long": (8, "int64"),
    "float64": (8, "fp64"),
    "double": (8, "fp64"),
    "complex64": (8, "complex64"),
    "complex128": (16, "complex128"),
    "float8_e4m3fn": (1, "fp8e4m3"),
    "float8_e5m2": (1, "fp8e5m2"),
}


class UnknownCallError(ValueError):
    """A marker without the values that its op needs: the kernel's cost is unknown."""


def type_name(dtype: str) -> str:
    """Return the short name of an element type; an unknown type unchanged."""
    return _TYPES.get(dtype.removeprefix("torch."), (0, dtype))[1]


def item_size(dtype: str) -> int:
    """Return the bytes of an element.

    Raises:
        UnknownCallError: An element type that is not known.
    """
    try:
        return _TYPES[dtype.removeprefix("torch.")][0]
    except KeyError as error:
        raise UnknownCallError(dtype) from error


@dataclass(frozen=True)
class Tensor:
    """Sizes and element type of an argument; a number has no dimensions."""

    shape: Shape
    dtype: str

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Unit: bytes."""
        return self.size * item_size(self.dtype)


def tensor_of(argument: dict[str, Any]) -> Tensor:
    """Return the tensor or number that a marker's argument describes.

    Raises:
        UnknownCallError: The argument is neither.
    """
    kind = argument.get("type")
    if kind == "tensor":
        return Tensor(tuple(argument["shape"]), str(argument["dtype"]))
    if kind in ("float", "int", "bool"):
        return Tensor((), str(kind))
    raise UnknownCallError(kind)


def joined(tensors: list[Tensor]) -> Tensor:
    """The tensor that tensors broadcast to, with the element type of the one of most dimensions.

    Raises:
        UnknownCallError: They cannot be broadcast.
    """
    shape = broadcast(tuple(tensor.shape for tensor in tensors))
    if shape is None:
        raise UnknownCallError("broadcast")
    widest = max(tensors, key=lambda tensor: len(tensor.shape))
    return Tensor(shape, widest.dtype)


def parameters(values: dict[str, Any]) -> str:
    """Parse ``M=64,N=32,K=8,fp16,``: names and values, element types by themselves."""
    parts = []
    for name, value in values.items():
        if "type" not in name:
            parts.append(f"{name}={value},")
        else:
            parts.append(f"{type_name(value)}," if isinstance(value, str) else str(value))
    return "".join(parts).replace(" ", "")
