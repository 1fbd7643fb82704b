"""Arguments of ops in a Kineto trace: sizes, element types, parameters by name.

``Input Dims``, ``Input type`` and ``Concrete Inputs`` are lists with one element per argument of
the op, in the order of its schema.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from aggregator.sources.kineto.names import data_type, element_type
from aggregator.system.untrusted_json import read_literal

_SIGNATURES: Final = """
conv1d conv2d conv3d: input weight bias stride padding dilation groups
conv_transpose1d conv_transpose2d conv_transpose3d:
    input weight bias stride padding output_padding groups dilation
convolution _convolution convolution_overrideable:
    input weight bias stride padding dilation transposed output_padding groups
cudnn_convolution: input weight padding stride dilation groups
miopen_convolution: input weight bias padding stride dilation groups
cudnn_convolution_transpose: input weight padding output_padding stride dilation groups
_conv_depthwise2d: input weight kernel_size bias stride padding dilation
max_pool1d max_pool2d max_pool3d
max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices:
    input kernel_size stride padding dilation ceil_mode
avg_pool1d avg_pool2d avg_pool3d: input kernel_size stride padding ceil_mode count_include_pad
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
_adaptive_avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d: input output_size
upsample_nearest1d upsample_nearest2d upsample_nearest3d: input output_size scales
upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d:
    input output_size align_corners scales
dropout native_dropout: input p train
softmax log_softmax: input dim
layer_norm: input normalized_shape weight bias eps
group_norm: input num_groups weight bias eps
batch_norm: input weight bias running_mean running_var training momentum eps
embedding: weight indices padding_idx
index_select: input dim index
scaled_dot_product_attention: query key value attn_mask dropout_p is_causal scale
cross_entropy_loss: input target weight reduction ignore_index label_smoothing
gelu: input approximate
"""
"""Arguments of ops whose parameters are shown or used in formulas (native_functions.yaml)."""
_NUMBERS: Final = frozenset({"stride", "padding", "dilation", "output_padding", "groups"})
_LIST: Final = "TensorList"
_NAMES: Final = {
    op: tuple(arguments.split())
    for ops, arguments in re.findall(r"([^:]+):([^\n]*(?:\n    .*)?)", _SIGNATURES)
    for op in ops.split()
}


def _attention(mask: int, lengths: int = -1) -> tuple[str, ...]:
    """Return the parameters at these positions: the mask and the window, the longest sequences."""
    names = [""] * (mask + 3)
    names[mask:] = ("is_causal", "window_left", "window_right")
    if lengths >= 0:
        names[lengths : lengths + 2] = ("max_q", "max_k")
    return tuple(names)


_ATTENTION: Final = {
    "_flash_attn_forward": _attention(5),
    "_flash_attn_backward": _attention(11),
    "_flash_attn_varlen_forward": _attention(9, 5),
    "_flash_attn_varlen_backward": _attention(15, 11),
    "varlen_fwd": _attention(15, 10),
    "fwd": _attention(24, 12),
    **dict.fromkeys(("mha_fwd", "fmha_v3_fwd", "wrapper_fmha_v3_fwd"), _attention(5)),
    **dict.fromkeys(("mha_varlen_fwd", "fmha_v3_varlen_fwd"), _attention(12, 5)),
    "mha_batch_prefill": _attention(12, 6),
}
"""FlashAttention 2 and 3, vLLM's builds of them, SGLang's and AITER, in their own namespaces."""

_CAUSAL: Final = {
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_efficient_attention": 6,
    "_scaled_dot_product_cudnn_attention": 6,
    "_scaled_dot_product_flash_attention_backward": 11,
    "_scaled_dot_product_efficient_attention_backward": 11,
    "_scaled_dot_product_cudnn_attention_backward": 14,
    "_flash_attention_forward": 8,
    "_flash_attention_backward": 11,
    "_cudnn_attention_forward": 10,
    "_cudnn_attention_backward": 14,
}
"""Position of ``is_causal`` in PyTorch's own attention (native_functions.yaml)."""
_NAMES.update({op: ("",) * position + ("is_causal",) for op, position in _CAUSAL.items()})


@lru_cache(maxsize=4096)
def parameter_names(op: str) -> tuple[str, ...]:
    """Names of the parameters of an op that are shown or used in formulas, by its full name."""
    namespace, _, name = op.rpartition("::")
    return (_NAMES if namespace == "aten" else _ATTENTION if namespace else {}).get(name, ())


class Arguments(NamedTuple):
    """Arguments of a call as written; the op's name only if its parameters are read."""

    dims: bytes
    types: bytes
    concrete: bytes
    name: str


class Shapes(NamedTuple):
    """Sizes, element type and parameters of a call's arguments."""

    # Sizes as ``emit_nvtx`` writes them, lists of tensors flattened; empty: not recorded.
    text: str
    data_type: str  # Element type of the first tensor; empty: not recorded.
    parameters: str  # JSON object of parameters by name; empty: not recorded.
    # JSON list of the element types of all arguments as in ``text``; empty: not recorded.
    element_types: str = ""
    # Sizes by argument, with None for each list of tensors without recorded sizes.
    lists: tuple[list[list[int]] | None, ...] = ()


def read_arguments(written: Arguments) -> Shapes:
    """Return the sizes, type and parameters of a call."""
    dims, types = _list(written.dims), _list(written.types)
    left_out = len(dims) == len(types) and any(
        kind == _LIST and size == [] for size, kind in zip(dims, types, strict=True)
    )
    # PyTorch leaves out the sizes of lists of more than thirty tensors.
    lists = tuple(
        None if kind == _LIST and size == [] else _flat([size])
        for size, kind in zip(dims, types if left_out else (), strict=False)
    )
    return Shapes(
        "" if left_out or not dims else json.dumps(_flat(dims)),
        data_type(written.types),
        _parameters(written),
        "" if left_out or len(dims) != len(types) else json.dumps(_flat_types(dims, types)),
        lists,
    )


def _list(text: bytes) -> list[Any]:
    try:
        value = msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return []
    return value if isinstance(value, list) else []


def _flat(dims: list[Any]) -> list[Any]:
    """Replace each list of tensors by the sizes of its tensors."""
    result: list[Any] = []
    for size in dims:
        is_list = isinstance(size, list) and bool(size) and isinstance(size[0], list)
        result += size if is_list else [size]
    return result


def _flat_types(dims: list[Any], types: list[Any]) -> list[str]:
    """Return the element type of each of the flattened arguments; a list of tensors has none."""
    found: list[str] = []
    for size, kind in zip(dims, types, strict=True):
        found += [element_type(kind)] * len(_flat([size]))
    return found


def _parameters(written: Arguments) -> str:
    names = parameter_names(written.name)
    values = {
        name: _value(text)
        for name, text in zip(names, _list(written.concrete), strict=False)
        # Empty if it was a string (padding="same"): unknown, not the default.
        if name and isinstance(text, str) and (text or name in _NUMBERS)
    }
    return json.dumps(values, separators=(",", ":")) if values else ""


def _value(text: str) -> Any:
    """Return ``[2, 2]``, ``True``, ``0.1`` as values, and any other text unchanged."""
    value = read_literal(text)
    return value if isinstance(value, bool | int | float | list) else text
