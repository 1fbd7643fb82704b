"""Products of serving engines: matrices with quantized weights, and mixtures of experts.

Weights of four bits are packed, two in a byte or eight in an int32; of six bits, four in three
bytes. Scales of their blocks (a byte for 32 elements of the MX types, for 16 of NVFP4) are read
once as well. A router sends each token to top-k of the experts, so the rows of their products are
tokens times k. Which experts the tokens reach is not recorded: at most as many as there are rows
have their weights read.

https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import prod

from aggregator.costs.formulas.call import Argument, Cost, OpCall, elements
from aggregator.texts import say

NO_EXPERTS = say("the sizes of its experts were not recorded")
_OTHER_SIZES = say("the sizes of its arguments are those of no product")
_FOUR_BITS = re.compile(r"a4w4|a16w4|a8w4|w4a|fp4|int4|awq|gptq|marlin")
_SIX_BITS = re.compile(r"a\d+w6|w6a|fp6|quant_llm")
_SECOND_STAGE = re.compile(r"stage_?2|gemm_?2|down")
_MOST_EXPERTS_PER_TOKEN = 64
_IN_BYTE, _IN_WORD = 2, 8
"""Weights of four bits in a byte and in an int32."""
_SIX_IN_BYTES = Fraction(4, 3)
_LEAST_RATIO = 8
"""Of the elements of a product's operands to those of their scales: NVFP4 packs two in a byte."""
_WIDTHS = ("float64", "float32", "bfloat16", "float16", "int8", "float8", "float6", "float4")


def quantized_product(call: OpCall) -> Cost:
    """``A (.., M, K)`` times ``B (N, K)`` or ``(K, N)``; the result may be the first or third."""
    matrices = [tensor for tensor in call.arguments if len(tensor.shape) >= 2]
    orders: list[tuple[Argument | None, Argument, Argument]] = []
    if len(matrices) > 2:
        orders.append((matrices[2], matrices[0], matrices[1]))
        orders.append((matrices[0], matrices[1], matrices[2]))
    if len(matrices) > 1:
        orders.append((None, matrices[0], matrices[1]))
    for out, left, right in orders:
        cost = _multiplied(call, out, left, right)
        if cost is not None:
            return cost
    return Cost(reason=_OTHER_SIZES)


def _multiplied(call: OpCall, out: Argument | None, left: Argument, right: Argument) -> Cost | None:
    batch = right.shape[:-2]
    if batch and left.shape[:-2] != batch:
        return None
    in_byte = _in_byte(call, right)
    both = left.data_type == right.data_type and in_byte > 1
    depth = left.shape[-1] * (in_byte if both else 1)
    packings = (in_byte,) if both else (1, _IN_BYTE, _IN_WORD, in_byte)
    for packing in packings:
        for column in (-2, -1):
            if right.shape[-3 - column] * packing != depth:
                continue
            shape = (*left.shape[:-1], right.shape[column])
            result = Argument(shape, _result_type(call, left))
            if out is None or _size_of_rows(out) == _size_of_rows(result):
                result = out or result
                scales = _scales(call, left, right, result)
                return Cost(
                    int(2 * elements(shape) * depth),
                    call.bytes_of(left, right, result, *scales),
                    is_matrix=True,
                    operand=_wider(call, left, right),
                )
    return None


def _scales(call: OpCall, left: Argument, right: Argument, result: Argument) -> list[Argument]:
    """Scales, zero points and bias of a product, by their sizes."""
    most = max(elements(left.shape), elements(right.shape)) // _LEAST_RATIO
    return [
        tensor
        for tensor in call.arguments
        if tensor not in (left, right) and elements(tensor.shape) <= most
        if _size_of_rows(tensor) != _size_of_rows(result)
    ]


def _size_of_rows(tensor: Argument) -> tuple[int, int]:
    """Elements, and those of each row: the same of all spellings of a result's sizes."""
    return elements(tensor.shape), tensor.shape[-1]


def _scales_of_experts(
    call: OpCall, tokens: int, weights: list[Argument], rows: int
) -> list[Argument]:
    """Scales of the weights of the experts that are reached; none if tokens may have the sizes."""
    count = weights[0].shape[0]
    most = max(elements(weight.shape) for weight in weights) // _LEAST_RATIO
    return [
        _reached(tensor, rows)
        for tensor in call.arguments
        if len(tensor.shape) > 1 and tensor.shape[0] == count != tokens
        if elements(tensor.shape) <= most
    ]


def _in_byte(call: OpCall, tensor: Argument) -> Fraction:
    """Elements of a narrow type that share a recorded one; 1: none is narrower than a byte."""
    is_bytes = tensor.data_type in ("uint8", "int8")
    if tensor.is_packed or (is_bytes and _FOUR_BITS.search(call.name)):
        return Fraction(_IN_BYTE)
    return _SIX_IN_BYTES if is_bytes and _SIX_BITS.search(call.name) else Fraction(1)


def _result_type(call: OpCall, left: Argument) -> str:
    """Type of a result that is not among the arguments; empty: only kernel names say it."""
    wide = [tensor.data_type for tensor in call.arguments if tensor.data_type in _WIDTHS[2:4]]
    return left.data_type if left.data_type in _WIDTHS[:4] else next(iter(wide), "")


def _wider(call: OpCall, left: Argument, right: Argument) -> str:
    """Type in which operands of two types are multiplied; empty: not recorded."""
    narrow = {Fraction(_IN_BYTE): "float4", _SIX_IN_BYTES: "float6"}
    kinds = [
        narrow.get(_in_byte(call, tensor)) or tensor.data_type.split("_")[0]
        for tensor in (left, right)
    ]
    known = [kind for kind in _WIDTHS if kind in kinds]
    return known[0] if known and all(kinds) else ""


def experts(call: OpCall) -> Cost:
    """All products of a layer of experts: 2 x routed rows x weights of one expert.

    ``fused_moe(x (T, H), w1 (E, 2 I, H), w2 (E, H, I), weights (T, k), ids (T, k))``. An operator
    that has no weights among its arguments takes them from the operators that it calls.
    """
    matrices = [tensor for tensor in call.arguments if len(tensor.shape) == 2]
    tensors = [*call.arguments, *call.inner]
    weights = _weights(call, tensors)
    rows = _routed_rows(tensors, matrices[0].shape[0], weights) if matrices and weights else None
    if rows is None:
        return Cost(reason=NO_EXPERTS)
    each = sum(elements(weight.shape[1:]) * _packing(weight) for weight in weights)
    reached = [_reached(weight, rows) for weight in weights]
    scales = _scales_of_experts(call, matrices[0].shape[0], weights, rows)
    moved = call.bytes_of(matrices[0], matrices[0], *reached, *scales)
    operand = _wider(call, matrices[0], weights[0])
    return Cost(2 * rows * each, moved, is_matrix=True, operand=operand)


def _weights(call: OpCall, tensors: list[Argument]) -> list[Argument]:
    """The largest tensors that have a matrix for each expert."""
    stacks = [t for t in call.arguments if len(t.shape) == 3 and t.shape[0] > 1]
    if not stacks:
        # The router's scores (T, E) say how many experts there are.
        count = next((t.shape[1] for t in call.arguments[1:] if len(t.shape) == 2), 0)
        stacks = [t for t in tensors if len(t.shape) == 3 and t.shape[0] == count > 1]
    largest = max((elements(tensor.shape) for tensor in stacks), default=0)
    # One product has half the weights of the other, whose result has two halves; scales have less.
    found = {t.shape: t for t in stacks if elements(t.shape) * 4 > largest}
    return list(found.values())


def _packing(weight: Argument) -> int:
    if weight.data_type == "int32":
        return _IN_WORD
    return _IN_BYTE if weight.is_packed or weight.data_type == "uint8" else 1


def _routed_rows(tensors: list[Argument], tokens: int, weights: list[Argument]) -> int | None:
    """Tokens times the experts of each, from the ids of experts (T, k); None: not recorded.

    Other integers may have a row for each token, but only the ids have weights of their sizes.
    """
    most = min(weights[0].shape[0], _MOST_EXPERTS_PER_TOKEN)
    small = [
        tensor
        for tensor in tensors
        if len(tensor.shape) == 2 and tensor.shape[0] == tokens and 0 < tensor.shape[1] <= most
    ]
    ids = {tensor.shape for tensor in small if tensor.data_type.lstrip("u").startswith("int")}
    pairs = {tensor.shape for tensor in small if "float" in tensor.data_type} & ids
    found = pairs if len(pairs) == 1 else ids
    return elements(found.pop()) if len(found) == 1 else None


def _reached(weight: Argument, rows: int) -> Argument:
    """The weights of as many experts as there are rows for."""
    return Argument((min(weight.shape[0], rows), *weight.shape[1:]), weight.data_type)


def expert_stage(call: OpCall) -> Cost:
    """One product of all experts: ``A (T, K)`` or routed rows times ``B (E, N, K)``."""
    tensors = [tensor for tensor in call.arguments if len(tensor.shape) in (2, 3)]
    found = [
        (rows, weight, weight.shape[column])
        for position, weight in enumerate(tensors)
        for rows in tensors[:position]
        for column in (-2, -1)
        if len(weight.shape) == 3
        and (len(rows.shape) == 2 or rows.shape[0] != weight.shape[0])
        and rows.shape[-1]
        in (weight.shape[-3 - column], _packing(weight) * weight.shape[-3 - column])
    ]
    if not found:
        return Cost(reason=NO_EXPERTS)
    # Both stages may get the weights of both.
    rows, weight, columns = found[-1 if _SECOND_STAGE.search(call.name) else 0]
    # The result has a row for each routed one, or is (T, k, ..) with half the columns if gated.
    results = [
        prod(tensor.shape[:-1])
        for tensor in tensors
        if tensor not in (rows, weight)
        and tensor.shape[0] != weight.shape[0]
        and (tensor.shape[-1] == columns or _is_routed(tensor, rows))
    ]
    ids = _routed_rows(tensors, rows.shape[0], [weight]) or 0
    routed = max(ids, elements(rows.shape[:-1]), *results)
    result = Argument((routed, columns), _result_type(call, rows))
    both_packed = rows.is_packed or rows.data_type == weight.data_type == "uint8"
    depth = rows.shape[-1] * (_IN_BYTE if both_packed else 1)
    scales = _scales_of_experts(call, rows.shape[0], [weight], routed)
    return Cost(
        2 * routed * columns * depth,
        call.bytes_of(rows, _reached(weight, routed), result, *scales),
        is_matrix=True,
        operand=_wider(call, rows, weight),
    )


def _is_routed(tensor: Argument, rows: Argument) -> bool:
    is_split = len(tensor.shape) == 3 and len(rows.shape) == 2
    return (
        is_split and tensor.shape[0] == rows.shape[0] and tensor.shape[1] <= _MOST_EXPERTS_PER_TOKEN
    )
