"""Operators of serving engines and their kernel libraries: vLLM, SGLang, FlashAttention, AITER.

Their names and signatures differ from library to library and from release to release, but the kind
of an operator is in its name, and its cost follows from the sizes and types of its tensors. So each
row of ``_KINDS`` is a kind: a pattern of names, and one formula for all of them. Sizes that fit no
call of the kind leave the cost unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from aggregator.costs.formulas.attention import serving_attention
from aggregator.costs.formulas.call import UNKNOWN, Argument, Cost, Formula, OpCall, elements
from aggregator.costs.formulas.experts import expert_stage, experts, quantized_product
from aggregator.costs.formulas.pointwise import SERIES
from aggregator.texts import say

GEMM, EXPERTS, ATTENTION = "gemm", "experts", "attention"
"""Families of products."""
_BY_INDEXES = say("what it moves depends on the contents of its index tensors")
_ONE_BYTE = "int8"
"""Stands for any quantized type, as long as its result is no argument."""


def _touched(call: OpCall, largest: Argument, count: int, missing: str) -> int | None:
    """Bytes of the ``count`` tensors of the size of the largest that a call reads and writes.

    Those that are no arguments, a result or the other side of a change in place, have the type
    ``missing``; smaller tensors are read once.
    """
    size = elements(largest.shape)
    same = [tensor for tensor in call.arguments if elements(tensor.shape) == size][:count]
    others = [tensor for tensor in call.arguments if elements(tensor.shape) < size]
    return call.bytes_of(*same, *others, *[Argument(largest.shape, missing)] * (count - len(same)))


def _norm(call: OpCall) -> Cost:
    """RMS and layer norm: of x, or of x and a residual, which is written back with the result."""
    if not call.arguments:
        return UNKNOWN
    rows = max(call.arguments, key=lambda tensor: elements(tensor.shape))
    adds, quantizes = "add" in call.name, "quant" in call.name
    size = elements(rows.shape)
    missing = _ONE_BYTE if quantizes else rows.data_type
    operations = 4 + adds + 2 * quantizes
    return Cost(operations * size, _touched(call, rows, 4 if adds else 2, missing))


def _quantization(call: OpCall) -> Cost:
    """The largest value of each block, and each element times a scale."""
    source = next(iter(sorted(call.arguments, key=_width)), None)
    if source is None:
        return UNKNOWN
    size = elements(source.shape)
    # Results of four bits have half as many elements.
    results = [t for t in call.arguments if t is not source and 2 * elements(t.shape) >= size]
    result = results[0] if results else Argument(source.shape, _ONE_BYTE)
    small = [t for t in call.arguments if 2 * elements(t.shape) < size]
    return Cost(2 * size, call.bytes_of(source, result, *small))


def _width(tensor: Argument) -> tuple[bool, int]:
    """Order of tensors in which the one to quantize is first."""
    is_wide = tensor.data_type in ("float32", "bfloat16", "float16", "")
    return not is_wide, -elements(tensor.shape)


def _activation(call: OpCall) -> Cost:
    """``silu_and_mul(out (T, I), x (T, 2 I))``: half of x activated, times the other half."""
    if not call.arguments:
        return UNKNOWN
    gates = max(call.arguments, key=lambda tensor: elements(tensor.shape))
    size = elements(gates.shape) // 2
    halves = [tensor for tensor in call.arguments if elements(tensor.shape) == size]
    kind = _ONE_BYTE if "quant" in call.name else gates.data_type
    result = halves[0] if halves else Argument((size,), kind)
    return Cost((SERIES + 1) * size, call.bytes_of(gates, result))


def _rotation(call: OpCall) -> Cost:
    """``rotary_embedding(positions (T), q (T, ..), k (T, ..), .., table (P, D), ..)``, in place.

    Each pair of elements takes four products and two sums; each token reads a row of the table.
    """
    positions = next((t for t in call.arguments if t.data_type.startswith("int")), None)
    tokens = (
        positions.shape[-1] if positions else call.arguments[0].shape[0] if call.arguments else 0
    )
    tensors = [t for t in call.arguments if t is not positions and len(t.shape) > 1]
    turned = [t for t in tensors if t.shape[0] == tokens or t.shape[1] == tokens][:2]
    if not turned:
        return UNKNOWN
    tables = [Argument((tokens, t.shape[-1]), t.data_type) for t in tensors if t not in turned]
    read = [*turned, *tables[:1], *([positions] if positions else [])]
    return Cost(3 * sum(elements(t.shape) for t in turned), call.bytes_of(*turned, *read))


def _cache_write(call: OpCall) -> Cost:
    """``reshape_and_cache(key, value, key_cache, value_cache, slots, ..)``: copied to the cache."""
    tensors = [tensor for tensor in call.arguments if len(tensor.shape) > 1]
    slots = [t for t in call.arguments if len(t.shape) == 1 and t.data_type.startswith("int")]
    if not tensors:
        return UNKNOWN
    tokens = tensors[0].shape[0]
    new = [tensor for tensor in tensors if tensor.shape[0] == tokens][:2]
    caches = [tensor for tensor in tensors if tensor.shape[0] != tokens]
    kind = caches[0].data_type if caches else new[0].data_type
    written = [Argument(tensor.shape, kind) for tensor in new]
    return Cost(0, call.bytes_of(*new, *written, *slots[:1]))


def _routing(call: OpCall) -> Cost:
    """Softmax of the scores (T, E) of a router or the logits (T, V), and the largest of each."""
    matrices = [tensor for tensor in call.arguments if len(tensor.shape) == 2]
    if not matrices:
        return Cost(reason=_BY_INDEXES)
    scores = max(matrices, key=lambda tensor: elements(tensor.shape))
    return Cost((SERIES + 4) * elements(scores.shape), call.bytes_of(*matrices))


def _message(call: OpCall) -> Cost:
    """The buffer that the ranks reduce or exchange, as for ``all_reduce``."""
    first = call.arguments[:1]
    return Cost(None, call.bytes_of(*first)) if first else UNKNOWN


def _sorting(call: OpCall) -> Cost:
    """Orders tokens by expert: integers only."""
    del call
    return Cost(0, None, reason=_BY_INDEXES)


def _unknown(reason: str) -> Formula:
    return lambda call: Cost(reason=reason)


class Kind(NamedTuple):
    """A kind of operators."""

    names: re.Pattern[str]  # Part of their names.
    formula: Formula  # Their cost.
    # Family of a product; of nested ones of a family the innermost is counted. Empty: no product.
    family: str = ""
    is_collective: bool = False


def _kind(names: str, formula: Callable[[OpCall], Cost], family: str = "", **more: bool) -> Kind:
    return Kind(re.compile(names), formula, family, **more)


# The first kind whose pattern a name contains is the one: fused operators come before the simple.
_KINDS = (
    _kind(r"all_?reduce|reduce_scatter|all_?gather|all_?to_?all", _message, is_collective=True),
    _kind(
        r"indexer|sparse|linear_attention|gdn|delta_rule|mamba|selective_scan|merge_attn|metadata",
        _unknown(say("its operations depend on what it selects or keeps")),
    ),
    _kind(r"moe_(?:align|sort|sum|permute|unpermute)|quant_moe_sort|kv_indices", _sorting),
    _kind(r"topk_(?:softmax|sigmoid|softplus)|grouped_topk|fused_gate|fused_topk", _routing),
    _kind(
        r"moe.*(?:stage|gemm|_mm)|invoke_fused_moe|grouped_(?:gemm|mm)|group_gemm",
        expert_stage,
        EXPERTS,
    ),
    _kind(r"moe|fused_experts", experts, EXPERTS),
    _kind(
        r"rope.*cache|reshape_and_cache|store_cache|kv_cache_update|set_kv_buffer|concat_and_cache"
        r"|append_paged_kv",
        _cache_write,
    ),
    _kind(r"rotary|rope", _rotation),
    _kind(r"(?:rms|layer)_?norm", _norm),
    _kind(r"(?:silu|gelu|swiglu|act)\w*_(?:and_)?mul", _activation),
    _kind(
        r"gemm|scaled_mm|(?:^|_)b?mm(?:_|$)|mul_mat|matmul|marlin|w8a8|_linear$",
        quantized_product,
        GEMM,
    ),
    _kind(r"quant", _quantization),
    _kind(
        r"attention|attn|fmha|mha_|varlen_fwd|^fwd$|mla_decode|mla_prefill|paged_(?:decode|prefill|run)|^pa_|batch_(?:pre|de)fill",
        serving_attention,
        ATTENTION,
    ),
    _kind(r"sampl|top_[kp]_|softmax|renorm", _routing),
)
_OF_PYTORCH = re.compile(r"(?:aten|prims?|autograd|c10d\w*|_c10d\w*|profiler|nccl)::")
_NOT_FORWARD = re.compile(r"backward|bwd|grad", re.IGNORECASE)


@lru_cache(maxsize=65_536)
def kind_of(full_name: str) -> Kind | None:
    """The kind of an operator by its name with namespace; None: it has no formula here.

    Operators of PyTorch have formulas of their own, and ranges without a namespace are no
    operators.
    """
    namespace, _, name = full_name.rpartition("::")
    if not namespace or _OF_PYTORCH.match(full_name):
        return None
    found = next((kind for kind in _KINDS if kind.names.search(name.lower())), None)
    is_backward = _NOT_FORWARD.search(name) is not None
    return None if found and is_backward and found.family != ATTENTION else found
