"""Cost of each kernel of an op, from PyProf's marker of the op: one function per class of ops.

The classes and formulas are PyProf's, per kernel and direction; docs/sources.md lists corrected
errors.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import itemgetter
from typing import Any

from profiler_cli.pyprof import matrix_ops, recurrent
from profiler_cli.pyprof.calls import (
    Args,
    Kernel,
    OpCost,
    Tensor,
    UnknownCallError,
    item_size,
    joined,
    parameters,
    require_consistent,
    tensor_of,
    unnamed,
)
from profiler_cli.pyprof.operators import operator_cost


def cost_of(marker: dict[str, Any], kernel: Kernel) -> OpCost:
    """Return the cost of a kernel; unknown without a formula or the values that it needs."""
    op, args = str(marker.get("op", "")), marker.get("args")
    arguments = [arg for arg in args if isinstance(arg, dict)] if isinstance(args, list) else []
    mod = str(marker.get("mod", ""))
    if "kernel" in marker:
        return operator_cost(marker, arguments, kernel)
    formula = recurrent.cost if _is_cell(mod, op) else FORMULAS.get(op)
    if formula is not None:
        try:
            return formula(mod if _is_cell(mod, op) else op, arguments, kernel)
        except (UnknownCallError, KeyError, IndexError, TypeError, ValueError, ZeroDivisionError):
            pass
    return OpCost(op, _unknown_parameters(arguments), "-", None, None)


def _is_cell(mod: str, op: str) -> bool:
    return mod in recurrent.GATES and op == "forward"


def _unknown_parameters(args: Args) -> str:
    tensors = [arg for arg in args if arg.get("type") == "tensor"]
    shapes = [arg.get("shape") for arg in tensors]
    return parameters({"T": shapes, "type": [arg.get("dtype") for arg in tensors]})


def _tensor_parameters(image: Tensor) -> str:
    return parameters({"T": image.shape, "type": image.dtype})


def _list_parameters(tensors: list[Tensor]) -> str:
    """List several tensors; an element type that all have comes once, as in PyProf2."""
    types = [tensor.dtype for tensor in tensors]
    shapes = [tensor.shape for tensor in tensors]
    return parameters({"T": shapes, "type": types[0] if len(set(types)) == 1 else types})


def _input(args: Args) -> dict[str, Any]:
    for arg in args:
        if arg.get("name") == "input":
            return arg
    return args[0]


Formula = Callable[[str, Args, Kernel], OpCost]


def _elementwise(
    operations: int,
    forward: int,
    backward: int,
    image_of: Callable[[Args], dict[str, Any]] = itemgetter(0),
    *,
    first_only: bool = False,
) -> Formula:
    """Operations, and reads or writes, of each element; ``first_only``: by the first kernel."""

    def count(op: str, args: Args, kernel: Kernel) -> OpCost:
        image = tensor_of(image_of(args))
        times = 0 if first_only and kernel.in_call > 0 else 1
        moved = times * image.bytes * (forward if kernel.is_forward else backward)
        return OpCost(op, _tensor_parameters(image), "-", times * operations * image.size, moved)

    return count


def _operands(args: Args) -> list[Tensor]:
    """Return the tensors that are read from memory; numbers are passed with the kernel's call.

    Empty: a tensor without dimensions, which a marker writes as a number without its type.
    """
    read = [arg for arg in args if arg.get("type") == "tensor" and arg.get("name") != "out"]
    require_consistent(fits=bool(read) or any(map(_is_number, args)))
    return [tensor_of(arg) for arg in read]


def _is_number(arg: dict[str, Any]) -> bool:
    """Whether it is a number, or a tensor without dimensions, which markers write as a number."""
    return arg.get("type") in ("float", "int", "bool")


def _without_dimensions(op: str, operations: int) -> OpCost:
    return OpCost(op, parameters({"T": [()]}), "-", operations, None)


def _unary(operations: int) -> Formula:
    def count(op: str, args: Args, _: Kernel) -> OpCost:
        tensors = _operands(args)
        if not tensors:
            return _without_dimensions(op, operations)
        image = tensors[0]
        shown = _list_parameters(tensors)
        return OpCost(op, shown, "-", operations * image.size, 2 * image.bytes)

    return count


_MOVES_GRADIENT = {"add", "add_", "__add__", "__radd__", "__iadd__"} | {
    *("sub", "sub_", "__sub__", "__rsub__", "__isub__")
}


def _binary(operations: int, *, compares: bool = False) -> Formula:
    def count(op: str, args: Args, kernel: Kernel) -> OpCost:
        moves = op in _MOVES_GRADIENT and not kernel.is_forward
        tensors = _operands(args)
        if not tensors:
            return _without_dimensions(op, 0 if moves else operations)
        inputs = tensors[:2]
        out, shown = joined(inputs), _list_parameters(tensors)
        if not kernel.is_forward:
            # The gradient, the other tensor if there is one, and the result.
            moved = 2 if moves else 1 + len(inputs)
            flops = 0 if moves else operations * out.size
            return OpCost(op, shown, "-", flops, moved * out.bytes)
        read = sum(tensor.bytes for tensor in inputs)
        written = out.size if compares else out.bytes
        return OpCost(op, shown, "-", operations * out.size, read + written)

    return count


def _ternary(op: str, args: Args, _: Kernel) -> OpCost:
    tensors = _operands(args)
    require_consistent(fits=len(tensors) in (2, 3))  # the weight of lerp may be a number
    out = joined(tensors)
    moved = sum(tensor.bytes for tensor in tensors) + out.bytes
    return OpCost(op, _list_parameters(tensors), "-", 3 * out.size, moved)


def _embedding(op: str, args: Args, kernel: Kernel) -> OpCost:
    index, weight = tensor_of(args[0]), tensor_of(args[1])
    require_consistent(fits=len(weight.shape) == 2)
    params = parameters(
        {"I": index.shape, "itype": index.dtype, "E": weight.shape, "etype": weight.dtype}
    )
    row = index.size * weight.shape[1] * item_size(weight.dtype)
    if kernel.is_forward:
        return OpCost(op, params, "-", 0, index.bytes + 2 * row)
    return OpCost(op, params, "-", 0, 3 * row if kernel.sub == 0 else 0)


def _reduction(factor: int, more: int, writes: int) -> Formula:
    def count(op: str, args: Args, kernel: Kernel) -> OpCost:
        first = kernel.in_call == 0
        if _is_number(_input(args)):
            return _without_dimensions(op, factor + more if first else 0)
        image = tensor_of(_input(args))
        moved = image.bytes + writes * item_size(image.dtype)
        flops = factor * image.size + more
        params = _tensor_parameters(image)
        return OpCost(op, params, "-", flops if first else 0, moved if first else 0)

    return count


def _mse_loss(op: str, args: Args, kernel: Kernel) -> OpCost:
    image = tensor_of(args[0])
    reduction = next((arg["value"] for arg in args if arg.get("type") == "str"), "mean")
    params = parameters({"T": image.shape, "type": image.dtype, "red": reduction})
    tensors = (2 if kernel.is_forward else 3) + (reduction == "none")
    flops = 2 * image.size + (reduction != "none")
    return OpCost(op, params, "-", flops, tensors * image.bytes)


def _adam(op: str, args: Args, kernel: Kernel) -> OpCost:
    weight, gradient = tensor_of(args[0]), tensor_of(args[4])
    params = parameters({"T": weight.shape, "wtype": weight.dtype, "gtype": gradient.dtype})
    moved = 6 * weight.bytes + gradient.bytes
    if weight.dtype != gradient.dtype:  # a copy of the weights in the gradient's type
        moved += gradient.bytes
    first = kernel.in_call == 0
    return OpCost(op, params, "-", 18 * weight.size if first else 0, moved if first else 0)


def _random_permutation(op: str, args: Args, _: Kernel) -> OpCost:
    count = int(args[0]["value"])
    return OpCost(op, parameters({"N": count}), "-", 3 * count, 8 * count)


def _convert(op: str, args: Args, _: Kernel) -> OpCost:
    if _is_number(args[0]):
        return _without_dimensions(op, 0)
    image = tensor_of(args[0])
    values = [arg.get("value") for arg in args[1:] if isinstance(arg.get("value"), str)]
    target = next((str(value) for value in values if str(value).startswith("torch.")), "")
    dtype = op if op != "to" else (target or image.dtype)
    params = parameters({"T": image.shape, "stype": image.dtype, "dtype": dtype})
    return OpCost(op, params, "-", 0, image.bytes + image.size * item_size(dtype))


def _copy(op: str, args: Args, _: Kernel) -> OpCost:
    target, source = tensor_of(args[0]), tensor_of(args[1])
    params = parameters({"T": target.shape, "stype": source.dtype, "dtype": target.dtype})
    read = source.bytes if args[1]["type"] == "tensor" else 0
    return OpCost(op, params, "-", 0, read + target.bytes)


def _any(op: str, args: Args, _: Kernel) -> OpCost:
    if _is_number(args[0]):
        return _without_dimensions(op, 0)
    image = tensor_of(args[0])
    return OpCost(op, _tensor_parameters(image), "-", 0, image.bytes)


def _cat(op: str, args: Args, kernel: Kernel) -> OpCost:
    tensors = [tensor_of(arg) for arg in args if arg["type"] == "tensor"]
    require_consistent(fits=bool(tensors))
    moved = 2 * sum(tensor.bytes for tensor in tensors)
    return OpCost(op, _list_parameters(tensors), "-", 0, moved if kernel.sub == 0 else 0)


def _masked(op: str, args: Args, kernel: Kernel) -> OpCost:
    image, mask = tensor_of(args[0]), tensor_of(args[1])
    shown: dict[str, Any] = {"T": image.shape, "type": image.dtype}
    if op == "masked_select":
        shown = {"T": image.shape, "M": mask.shape, "type": image.dtype}
    moved = 2 * image.bytes + mask.size
    first = kernel.in_call == 0 or op == "masked_select"
    return OpCost(op, parameters(shown), "-", 0, moved if first else 0)


def _nonzero(op: str, args: Args, kernel: Kernel) -> OpCost:
    image = tensor_of(args[0])
    params = _tensor_parameters(image)
    moved = image.bytes + image.size * len(image.shape) * 8  # at worst, all are
    return OpCost(op, params, "-", 0, moved if kernel.in_call == 0 else 0)


def _index_select(op: str, args: Args, _: Kernel) -> OpCost:
    inputs = [arg for arg in args if arg.get("name") != "out"]
    image, axis, index = tensor_of(inputs[0]), int(inputs[1]["value"]), tensor_of(inputs[2])
    params = parameters({"T": image.shape, "D": axis, "I": index.size, "type": image.dtype})
    shape = list(image.shape)
    shape[axis] = index.size
    moved = 2 * prod(shape) * item_size(image.dtype) + index.size * 8
    return OpCost(op, params, "-", 0, moved)


def _filled(op: str, args: Args, _: Kernel) -> OpCost:
    image = tensor_of(args[0]) if args[0]["type"] == "tensor" else _made(args)
    return OpCost(op, _tensor_parameters(image), "-", 0, image.bytes)


def _made(args: Args) -> Tensor:
    """Return the result of ``ones(2, 3)`` or ``full((2, 3), 1.0)``, float32 without a type."""
    positional = unnamed(args)
    if positional[0]["type"] in ("list", "tuple"):
        shape = tuple(positional[0]["value"])
    else:
        shape = tuple(int(arg["value"]) for arg in positional if arg["type"] == "int")
    dtype = next((str(arg["value"]) for arg in args if arg.get("name") == "dtype"), "float32")
    return Tensor(shape, dtype)


_ACTIVATIONS = (
    "celu elu elu_ hardshrink hardtanh hardtanh_ leaky_relu leaky_relu_ logsigmoid prelu relu "
    "relu_ relu6 rrelu rrelu_ selu softplus softshrink softsign tanhshrink threshold threshold_ "
    "gelu silu mish hardswish"
)
_CHEAP = (
    "abs neg reciprocal ceil clamp floor frac round sign trunc __abs__ __neg__ __invert__ "
    "clamp_min clamp_max"
)
_COSTLY = (
    "exp exp1m expm1 log log10 log1p log2 rsqrt sqrt acos asin atan cos cosh sin sinh tan sigmoid "
    "tanh erf erfc erfinv digamma"
)
_ARITHMETIC = (
    "add div mul remainder sub fmod __add__ __sub__ __mul__ __floordiv__ __truediv__ __mod__ "
    "__radd__ __rsub__ __rmul__ __rdiv__ __rtruediv__ __rfloordiv__ __iadd__ __isub__ __imul__ "
    "__itruediv__ __and__ __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__ "
    "__ilshift__ __irshift__"
)
_COMPARISONS = "lt gt ge le eq ne __lt__ __gt__ __ge__ __le__ __eq__ __ne__"


def _names(text: str) -> list[str]:
    """Return each name, and its in-place form with an underscore."""
    names = text.split()
    return names + [f"{name}_" for name in names if not name.endswith("_")]


_FILLS = "ones zeros full ones_like zeros_like full_like zero_ fill_"
_CONVERSIONS = "byte char double float half int long short to bfloat16 bool"

FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(_ACTIVATIONS.split(), _elementwise(1, 2, 3, lambda args: unnamed(args)[0])),
    **dict.fromkeys(_names(_CHEAP), _unary(1)),
    **dict.fromkeys(_names(_COSTLY), _unary(20)),
    **dict.fromkeys(_names(_ARITHMETIC), _binary(1)),
    **dict.fromkeys(_names(_COMPARISONS), _binary(1, compares=True)),
    **dict.fromkeys(_names("pow atan2 __pow__ __rpow__"), _binary(20)),
    **dict.fromkeys(_names("addcdiv addcmul lerp"), _ternary),
    **dict.fromkeys(("addmm", "addmm_", "mm", "bmm"), matrix_ops.mm),
    **dict.fromkeys(("matmul", "__matmul__"), matrix_ops.matmul),
    "linear": matrix_ops.linear,
    **dict.fromkeys(
        [f"conv{kind}{dims}d" for kind in ("", "_transpose") for dims in (1, 2, 3)], matrix_ops.conv
    ),
    "softmax": _elementwise(40, 3, 5, _input),
    "log_softmax": _elementwise(21, 3, 5, _input),
    "batch_norm": _elementwise(8, 4, 5, first_only=True),
    "dropout": _elementwise(5, 2, 2),
    "embedding": _embedding,
    "sum": _reduction(1, 0, 0),
    "mean": _reduction(1, 1, 1),
    "norm": _reduction(2, 1, 0),
    "mse_loss": _mse_loss,
    "adam": _adam,
    "randperm": _random_permutation,
    **dict.fromkeys(_CONVERSIONS.split(), _convert),
    "copy_": _copy,
    # Where a kernel ran for reshape, it copied.
    **dict.fromkeys(("clone", "contiguous", "gather", "reshape"), _elementwise(0, 2, 2)),
    "any": _any,
    **dict.fromkeys(("cat", "stack"), _cat),
    **dict.fromkeys(("masked_scatter_", "masked_select"), _masked),
    "nonzero": _nonzero,
    "index_select": _index_select,
    **dict.fromkeys(_FILLS.split(), _filled),
}
