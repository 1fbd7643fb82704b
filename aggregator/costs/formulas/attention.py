"""Scaled dot product attention, for all kernels that compute it.

Forward two products per head: Q K^T and P V, 2 B H Sq Sk (D + Dv) operations. Backward five: flash
attention computes Q K^T again, then dP = dO V^T, dV = P^T dO, dQ = dS K and dK = dS^T Q. That is
how ``torch.utils.flop_counter`` counts all of them. The softmax in between is not counted. Bytes:
Q, K, V and O once; the scores stay on chip.

Only pairs of a query and a key that it sees are counted: keys up to itself with a causal mask, and
no further back than the window. Where neither the call nor the name of the kernel says that the
mask is causal, all pairs are: an upper bound. The sequences of serving engines have lengths of
their own, which the name of the engine's step may sum up: of several sequences a window then gives
an upper bound.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aggregator.costs.formulas.call import UNKNOWN, Argument, Cost, Formula, OpCall, elements
from aggregator.texts import say


def _attention(*, heads_last: bool, backward: bool) -> Formula:
    """The formula for query, key and value; the backward has dO before them.

    They are (B, H, S, D), where key and value may have fewer heads (grouped queries), or
    (B, S, H, D) as the kernels below the public op expect them. The backward reads dO, Q, K, V and
    O, and writes dQ, dK and dV.
    """
    first = int(backward)

    def count(call: OpCall) -> Cost:
        tensors = call.shapes[first : first + 3]
        dims = {len(shape) for shape in tensors}
        if len(tensors) < 3 or len(dims) > 1 or dims.pop() < 3 or tensors[0][-1] != tensors[1][-1]:
            return UNKNOWN
        query, key, value = tensors
        if heads_last and len(query) != 4:
            return UNKNOWN
        at = 1 if heads_last else -2
        rows = elements(query[:-1])
        mask = _mask(call, default=bool(call.is_causal))
        scores = rows // max(query[at], 1) * visible_pairs(query[at], key[at], mask)
        inputs, output = sum(map(elements, tensors)), rows * value[-1]
        if backward:
            flops = 2 * scores * (3 * query[-1] + 2 * value[-1])
            return Cost(flops, call.traffic(inputs + 2 * output, inputs), is_matrix=True)
        flops = 2 * scores * (query[-1] + value[-1])
        return Cost(flops, call.traffic(inputs, output), is_matrix=True)

    return count


_KINDS = ("flash", "efficient", "cudnn", "fused_cudnn")
_PUBLIC, _PUBLIC_BACKWARD, _KERNEL, _KERNEL_BACKWARD = (
    _attention(heads_last=last, backward=backward)
    for last in (False, True)
    for backward in (False, True)
)

FORMULAS: dict[str, Formula] = {
    **{f"_scaled_dot_product_{kind}_attention": _PUBLIC for kind in _KINDS},
    **{f"_scaled_dot_product_{kind}_attention_backward": _PUBLIC_BACKWARD for kind in _KINDS},
    "_cudnn_attention_forward": _PUBLIC,
    "_cudnn_attention_backward": _PUBLIC_BACKWARD,
    "_flash_attention_forward": _KERNEL,
    "_flash_attention_backward": _KERNEL_BACKWARD,
    "_efficient_attention_forward": _KERNEL,
    "_efficient_attention_backward": _KERNEL_BACKWARD,
}

NO_LENGTHS = say("the lengths of its sequences were not recorded")
_NO_HEADS = say("the sizes of its arguments are those of no attention")


class _Heads(NamedTuple):
    query: Argument  # (.., heads, D).
    key: Argument  # (.., key heads, D), or pages of a cache.
    value: Argument | None  # None: a part of the key (latent attention).
    rows: int  # Queries.
    key_heads: int
    value_size: int  # Elements of each value.


class Mask(NamedTuple):
    """Which keys a query sees."""

    is_causal: bool
    left: int  # Keys before its own that a query sees; -1: all.
    right: int  # Keys after its own; -1: all.


def serving_attention(call: OpCall) -> Cost:
    """Attention over a batch of its own lengths, or over the pages of a cache of keys and values.

    The tensors come as (query, key, value) or (result, .., query, keys, values); the backward has
    the result's gradient before them.
    """
    is_backward = "bwd" in call.name or "backward" in call.name
    found = _heads(call.arguments[int(is_backward) :])
    if found is None:
        return Cost(reason=_NO_HEADS)
    counts = _by_step(call, found) or _by_sizes(call, found)
    if counts is None:
        return Cost(reason=NO_LENGTHS)
    pairs, keys = counts
    heads, size = found.query.shape[-2], found.query.shape[-1]
    operand = found.query.data_type.split("_")[0]
    in_cache = keys * found.key_heads * (size + (found.value_size if found.value else 0))
    cached = Argument((in_cache,), (found.value or found.key).data_type)
    result = Argument((found.rows, heads, found.value_size), found.query.data_type)
    query = Argument((found.rows, heads, size), found.query.data_type)
    if is_backward:
        flops = 2 * pairs * heads * (3 * size + 2 * found.value_size)
        moved = call.bytes_of(query, query, cached, cached, result, result)
        return Cost(flops, moved, is_matrix=True, operand=operand)
    flops = 2 * pairs * heads * (size + found.value_size)
    return Cost(flops, call.bytes_of(query, cached, result), is_matrix=True, operand=operand)


def _heads(arguments: tuple[Argument, ...]) -> _Heads | None:
    tensors = [tensor for tensor in arguments if len(tensor.shape) in (3, 4, 5)]
    if len(tensors) < 2 or len(tensors[0].shape) > 4:
        return None
    query, *others = tensors
    heads, size = query.shape[-2:]
    rows = elements(query.shape[:-2])
    caches = [t for t in others if elements(t.shape) and t.shape[0] != query.shape[0]]
    # A latent cache has one head, whose first elements are the value.
    results = [t for t in others if t not in caches and t.shape[:-1] == query.shape[:-1]]
    if len(caches) == 1 and caches[0].shape[-1] == size and caches[0].shape[-2] == 1:
        value_size = min((t.shape[-1] for t in results), default=size)
        return _Heads(query, caches[0], None, rows, 1, value_size)
    key, value = caches[:2] if len(caches) > 1 else others[:2] if len(others) > 1 else (None, None)
    if key is None or value is None:
        return None
    if key.shape[-1] == size:
        counts = [count for count in key.shape[-2:-4:-1] if count and heads % count == 0]
        value_size = value.shape[-1] if value.shape[:-1] == key.shape[:-1] else size
    else:  # Pages of vLLM's oldest cache: (pages, heads, D / x, positions, x).
        counts, value_size = [key.shape[1]] if len(key.shape) == 5 else [], size
    if not counts or heads % counts[0]:
        return None
    return _Heads(query, key, value, rows, counts[0], value_size)


def _mask(call: OpCall, *, default: bool) -> Mask:
    known: dict[str, Any] = dict(call.parameters)
    causal = known.get("is_causal", default)
    left, right = (known.get(name, -1) for name in ("window_left", "window_right"))
    left, right = (n if type(n) is int and n >= 0 else -1 for n in (left, right))
    return Mask(causal if isinstance(causal, bool) else default, left, right)


def _by_step(call: OpCall, found: _Heads) -> tuple[int, int] | None:
    """Pairs of queries and keys, and keys, by the lengths of the engine's step; None: unknown."""
    steps = call.lengths
    if steps is None or steps.context.queries + steps.generation.queries > found.rows:
        return None
    mask = _mask(call, default=True)
    pairs = keys = 0
    for requests in steps:
        seen, own, new = requests.products, requests.keys, requests.queries
        if new**2 == requests.squares:  # One request at most.
            seen = visible_pairs(new, own, mask)
            own = min(own, new + mask.left) if mask.left >= 0 else own
        elif mask.is_causal:
            seen -= (requests.squares - new) // 2
        if mask.left >= 0:
            # Only sums are known: no query sees more than the window, nor more than there is.
            seen = min(seen, new * (mask.left + 1))
            own = min(own, seen)
        pairs, keys = pairs + seen, keys + own
    return pairs, keys


def _by_sizes(call: OpCall, found: _Heads) -> tuple[int, int] | None:
    """The same by the sizes of a batch whose sequences have one length; None: they have not."""
    known: dict[str, Any] = dict(call.parameters)
    query, key = found.query.shape, found.key.shape
    is_batch = len(query) == len(key) == 4 and query[0] == key[0]
    starts = [t.shape[0] - 1 for t in call.arguments if len(t.shape) == 1]
    most = [known.get(name) for name in ("max_q", "max_k")]
    if is_batch and not any(type(count) is int for count in most):
        count, queries, keys = query[0], query[1], key[1]
    elif starts and len(query) == len(key) == 3 and starts[0] > 0:
        count = starts[0]
        queries, keys = query[0] // count, key[0] // count
        is_even = count == 1 or [queries, keys] == most
        if not is_even or query[0] % count or key[0] % count:
            return None
    else:
        return None
    pairs = visible_pairs(queries, keys, _mask(call, default=bool(call.is_causal)))
    return count * pairs, count * keys


def visible_pairs(queries: int, keys: int, mask: Mask) -> int:
    """Pairs of queries and keys that a mask leaves; the last query belongs to the last key."""
    right = 0 if mask.is_causal else mask.right
    up_to_right = queries * keys if right < 0 else _pairs_up_to(queries, keys, right)
    return up_to_right - (_pairs_up_to(queries, keys, -mask.left - 1) if mask.left >= 0 else 0)


def _pairs_up_to(queries: int, keys: int, offset: int) -> int:
    """Pairs whose key is no further than ``offset`` after the key of the query."""

    def seen(last: int) -> int:  # The sum of 1, 2, .. up to the number of keys, then of that.
        rising = max(min(last, keys), 0)
        return rising * (rising + 1) // 2 + max(last - keys, 0) * keys

    return seen(keys + offset) - seen(keys + offset - queries)
