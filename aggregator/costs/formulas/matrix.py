"""Products of matrices.

A product of M x K and K x N is 2 M N K operations: one multiplication and one addition for each
term, as ``torch.utils.flop_counter`` and PyProf count it. Like there, a bias or ``beta * C`` is not
counted. PyProf's bytes of ``linear`` multiplied only the last of three terms by the element size;
here all three are.
"""

from __future__ import annotations

from aggregator.costs.formulas.call import (
    UNKNOWN,
    Cost,
    Formula,
    OpCall,
    Shape,
    broadcast,
    elements,
)


def product(call: OpCall, left: Shape, right: Shape, more_read: int = 0) -> Cost:
    """Cost of ``left @ right``; leading dimensions broadcast, vectors are matrices of one row.

    Args:
        call: Element sizes.
        left: (..., M, K), or (K,).
        right: (..., K, N), or (K,).
        more_read: Elements read besides the two matrices.
    """
    left = (1, *left) if len(left) == 1 else left
    right = (*right, 1) if len(right) == 1 else right
    if min(len(left), len(right)) < 2 or left[-1] != right[-2]:
        return UNKNOWN
    batch = broadcast((left[:-2], right[:-2]))
    if batch is None:
        return UNKNOWN
    written = elements(batch) * left[-2] * right[-1]
    read = elements(left) + elements(right) + more_read
    return Cost(2 * written * left[-1], call.traffic(read, written), is_matrix=True)


def _two(call: OpCall) -> Cost:
    return product(call, call.argument(0), call.argument(1))


def _added(call: OpCall) -> Cost:
    """``addmm(C, A, B)``: C is read as well."""
    return product(call, call.argument(1), call.argument(2), elements(call.argument(0) or (0,)))


def _reduced(call: OpCall) -> Cost:
    """``addbmm(C, A, B)``: the products of all batches are added up."""
    left, right = call.argument(1), call.argument(2)
    if len(left) != 3 or len(right) != 3 or left[2] != right[1]:
        return UNKNOWN
    written = left[1] * right[2]
    read = elements(left) + elements(right) + elements(call.argument(0) or (0,))
    return Cost(2 * left[0] * written * left[2], call.traffic(read, written), is_matrix=True)


def _dot(call: OpCall) -> Cost:
    left, right = call.argument(0), call.argument(1)
    if len(left) != 1 or left != right:
        return UNKNOWN
    return Cost(2 * left[0], call.traffic(2 * left[0], 1), is_matrix=True)


def _outer(call: OpCall) -> Cost:
    """``addr(C, a, b)``."""
    rows, columns = call.argument(1), call.argument(2)
    if len(rows) != 1 or len(columns) != 1:
        return UNKNOWN
    return product(call, (rows[0], 1), (1, columns[0]), elements(call.argument(0) or (0,)))


def linear(call: OpCall) -> Cost:
    """``linear(x, W, b)``: x (..., K) times W (M, K) transposed."""
    image, weight = call.argument(0), call.argument(1)
    if not image or len(weight) != 2:
        return UNKNOWN
    rows = (elements(image) // max(image[-1], 1), image[-1])
    return product(call, rows, (weight[1], weight[0]), elements(call.argument(2) or (0,)))


def _linear_backward(call: OpCall) -> Cost:
    """``linear_backward(x, dy, W)``: dx = dy W and dW = dy^T x."""
    image, gradient, weight = call.argument(0), call.argument(1), call.argument(2)
    forward = linear(OpCall(call.name, (image, weight)))
    if forward.flops is None or not gradient:
        return UNKNOWN
    read = elements(image) + elements(gradient) + elements(weight)
    return Cost(
        2 * forward.flops, call.traffic(read, elements(image) + elements(weight)), is_matrix=True
    )


def _bilinear(call: OpCall) -> Cost:
    """``bilinear(x1, x2, W)``: y[n, k] = sum over i, j of x1[n, i] W[k, i, j] x2[n, j]."""
    first, second, weight = (call.argument(position) for position in range(3))
    if len(weight) != 3 or not first or not second:
        return UNKNOWN
    rows = elements(first) // max(first[-1], 1)
    flops = 2 * rows * weight[0] * weight[1] * (weight[2] + 1)
    read = elements(first) + elements(second) + elements(weight)
    return Cost(flops, call.traffic(read, rows * weight[0]), is_matrix=True)


def _grouped(call: OpCall) -> Cost:
    """``_grouped_mm``: rows of A (or of B) are divided among the groups."""
    left, right = call.argument(0), call.argument(1)
    if len(left) == 2 and len(right) == 3 and left[1] == right[1]:
        flops, written = 2 * elements(left) * right[2], left[0] * right[2]
    elif len(left) == 3 and len(right) == 3 and left[2] == right[1]:
        return product(call, left, right)
    else:
        return UNKNOWN
    return Cost(flops, call.traffic(elements(left) + elements(right), written), is_matrix=True)


# Recurrent layers. Every weight matrix multiplies every time step once: 2 T B rows x columns
# operations, summed over the weights of all layers and directions. The gates' pointwise work is not
# counted for whole layers, as in PyProf; for a cell's fused kernel it is the whole cost.

GATE_OPERATIONS = 9
"""Per hidden element of a cell: activations, products and sums of its gates."""


def _layers(*, backward: bool) -> Formula:
    """``_cudnn_rnn(x, weights, ..., hx, cx, ...)``, or its backward."""

    def count(call: OpCall) -> Cost:
        image = call.argument(0)
        weights = [shape for shape in call.shapes[1:] if len(shape) == 2]
        states = [shape for shape in call.shapes[1:] if len(shape) == 3]
        if len(image) < 2 or not weights or not states:
            return UNKNOWN
        rows = elements(image[:-1])
        recurrent = [shape for shape in weights if shape[0] % max(shape[1], 1) == 0]
        output = rows * min((shape[1] for shape in recurrent), default=states[0][-1])
        size, inputs = sum(map(elements, weights)), elements(image)
        if backward:
            traffic = call.traffic(2 * (size + inputs + output), size + inputs)
            return Cost(4 * rows * size, traffic, is_matrix=True)
        return Cost(2 * rows * size, call.traffic(inputs + size, output), is_matrix=True)

    return count


def _cell(gates: int) -> Formula:
    def count(call: OpCall) -> Cost:
        """``_thnn_fused_lstm_cell(input gates, hidden gates, state, ...)``."""
        first = call.argument(0)
        if not first or first[-1] % gates:
            return UNKNOWN
        hidden = elements(first) // gates
        traffic = call.traffic((2 * gates + 1) * hidden, 2 * hidden)
        return Cost(GATE_OPERATIONS * hidden, traffic)

    return count


FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("mm", "bmm", "mv", "matmul", "__matmul__", "_int_mm", "_scaled_mm"), _two),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "_addmm_activation"), _added),
    "addbmm": _reduced,
    "dot": _dot,
    "vdot": _dot,
    "addr": _outer,
    "linear": linear,
    "linear_backward": _linear_backward,
    "bilinear": _bilinear,
    "_grouped_mm": _grouped,
    "_cudnn_rnn": _layers(backward=False),
    "_cudnn_rnn_backward": _layers(backward=True),
    "_thnn_fused_lstm_cell": _cell(4),
    "_thnn_fused_gru_cell": _cell(3),
    "_scaled_grouped_mm": _grouped,
}
