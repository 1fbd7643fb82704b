"""What a Kineto trace tells of an op's arguments: sizes, element types, parameters by name.

``Input Dims``, ``Input type`` and ``Concrete Inputs`` are lists with one place for each argument
of the op, in the order of its schema.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import msgspec

from aggregator.sources.kineto_names import data_type
from aggregator.told import read_literal

_CONV: Final = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_TRANSPOSED: Final = (*_CONV[:5], "output_padding", "groups", "dilation")
_CONVOLUTION: Final = (*_CONV[:6], "transposed", "output_padding", "groups")
_POOL: Final = ("input", "kernel_size", "stride", "padding")
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    **{f"conv{dims}d": _CONV for dims in (1, 2, 3)},
    **{f"conv_transpose{dims}d": _TRANSPOSED for dims in (1, 2, 3)},
    "convolution": _CONVOLUTION,
    "_convolution": _CONVOLUTION,
    "convolution_overrideable": _CONVOLUTION,
    "cudnn_convolution": ("input", "weight", "padding", "stride", "dilation", "groups"),
    "miopen_convolution": ("input", "weight", "bias", "padding", "stride", "dilation", "groups"),
    "cudnn_convolution_transpose": (
        *("input", "weight", "padding", "output_padding", "stride", "dilation", "groups"),
    ),
    "_conv_depthwise2d": (
        *("input", "weight", "kernel_size", "bias", "stride", "padding", "dilation"),
    ),
    **{
        f"max_pool{dims}d{more}": (*_POOL, "dilation", "ceil_mode")
        for dims in (1, 2, 3)
        for more in ("", "_with_indices")
    },
    **{f"avg_pool{dims}d": (*_POOL, "ceil_mode", "count_include_pad") for dims in (1, 2, 3)},
    **{
        f"{kind}_pool{dims}d": ("input", "output_size")
        for dims in (1, 2, 3)
        for kind in ("adaptive_avg", "_adaptive_avg", "adaptive_max")
    },
    **{f"upsample_nearest{dims}d": ("input", "output_size", "scales") for dims in (1, 2, 3)},
    **{
        f"upsample_{kind}": ("input", "output_size", "align_corners", "scales")
        for kind in ("linear1d", "bilinear2d", "bicubic2d", "trilinear3d")
    },
    "dropout": ("input", "p", "train"),
    "native_dropout": ("input", "p", "train"),
    "softmax": ("input", "dim"),
    "log_softmax": ("input", "dim"),
    "layer_norm": ("input", "normalized_shape", "weight", "bias", "eps"),
    "group_norm": ("input", "num_groups", "weight", "bias", "eps"),
    "batch_norm": (
        *("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"),
    ),
    "embedding": ("weight", "indices", "padding_idx"),
    "index_select": ("input", "dim", "index"),
    "scaled_dot_product_attention": (
        *("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale"),
    ),
    "cross_entropy_loss": (
        *("input", "target", "weight", "reduction", "ignore_index", "label_smoothing"),
    ),
    "gelu": ("input", "approximate"),
}
"""Arguments of ops whose parameters are shown or counted with (native_functions.yaml)."""
_NUMBERS: Final = frozenset({"stride", "padding", "dilation", "output_padding", "groups"})
_LIST: Final = "TensorList"
WITH_PARAMETERS: Final = frozenset(f"aten::{name}" for name in _NAMES)


class Arguments(NamedTuple):
    """Arguments of a call as written; the op's name only where its parameters are read."""

    dims: bytes
    types: bytes
    concrete: bytes
    name: str


class Shapes(NamedTuple):
    """What is read of arguments.

    Attributes:
        text: Sizes as ``emit_nvtx`` writes them, lists of tensors flattened; empty: not recorded.
        data_type: Element type of the first tensor; empty: not told.
        parameters: JSON object of parameters by name; empty: none told.
        lists: Arguments with a place for each list of tensors whose sizes were left out.
    """

    text: str
    data_type: str
    parameters: str
    lists: tuple[list[list[int]] | None, ...] = ()


def read_arguments(told: Arguments) -> Shapes:
    """Sizes, type and parameters of a call."""
    dims, types = _list(told.dims), _list(told.types)
    left_out = len(dims) == len(types) and any(
        kind == _LIST and size == [] for size, kind in zip(dims, types, strict=True)
    )
    # PyTorch leaves out lists of more than thirty tensors.
    lists = tuple(
        None if kind == _LIST and size == [] else _flat([size])
        for size, kind in zip(dims, types if left_out else (), strict=False)
    )
    return Shapes(
        "" if left_out or not dims else json.dumps(_flat(dims)),
        data_type(told.types),
        _parameters(told),
        lists,
    )


def _list(text: bytes) -> list[Any]:
    try:
        value = msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return []
    return value if isinstance(value, list) else []


def _flat(dims: list[Any]) -> list[Any]:
    """Sizes of lists of tensors in the place of the list."""
    result: list[Any] = []
    for size in dims:
        is_list = isinstance(size, list) and bool(size) and isinstance(size[0], list)
        result += size if is_list else [size]
    return result


def _parameters(told: Arguments) -> str:
    names = _NAMES.get(told.name.removeprefix("aten::"), ())
    values = {
        name: _value(text)
        for name, text in zip(names, _list(told.concrete), strict=False)
        # Left empty where it is a word (padding="same"): unknown, not the default.
        if isinstance(text, str) and (text or name in _NUMBERS)
    }
    return json.dumps(values, separators=(",", ":")) if values else ""


def _value(text: str) -> Any:
    """``[2, 2]``, ``True``, ``0.1``; what is nothing of the kind stays text."""
    value = read_literal(text)
    return value if isinstance(value, bool | int | float | list) else text
