"""Recurrent layers: cuDNN's whole layers, and the fused pointwise part of single cells.

Every weight matrix multiplies every time step once: 2 T B rows x columns operations, summed over
the weights of all layers and directions that the call lists. The gates' pointwise work (about nine
operations per hidden element) is left out of whole layers, as PyProf did, and is all there is of a
cell's fused kernel. Backward: two products for each one forward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggregator.flops.cost import UNKNOWN, Cost, OpCall, elements

if TYPE_CHECKING:
    from collections.abc import Callable

GATE_OPERATIONS = 9
"""Per hidden element of a cell: activations, products and sums of its gates."""


def _layers(call: OpCall) -> tuple[int, int, int] | None:
    """Rows of the input, elements of weight matrices, elements of the output."""
    image = call.argument(0)
    weights = [shape for shape in call.shapes[1:] if len(shape) == 2]
    states = [shape for shape in call.shapes[1:] if len(shape) == 3]
    if len(image) < 2 or not weights or not states:
        return None
    rows = elements(image[:-1])
    recurrent = [shape for shape in weights if shape[0] % max(shape[1], 1) == 0]
    hidden = min((shape[1] for shape in recurrent), default=states[0][-1])
    return rows, sum(map(elements, weights)), rows * hidden


def forward(call: OpCall) -> Cost:
    """``_cudnn_rnn(x, weights, ..., hx, cx, ...)``."""
    found = _layers(call)
    if found is None:
        return UNKNOWN
    rows, weights, output = found
    traffic = call.traffic(elements(call.argument(0)) + weights, output)
    return Cost(2 * rows * weights, traffic, is_matrix=True)


def backward(call: OpCall) -> Cost:
    """``_cudnn_rnn_backward(x, weights, ...)``."""
    found = _layers(call)
    if found is None:
        return UNKNOWN
    rows, weights, output = found
    image = elements(call.argument(0))
    traffic = call.traffic(2 * weights + 2 * image + 2 * output, weights + image)
    return Cost(4 * rows * weights, traffic, is_matrix=True)


def _cell(gates: int) -> Callable[[OpCall], Cost]:
    def count(call: OpCall) -> Cost:
        """``_thnn_fused_lstm_cell(input gates, hidden gates, state, ...)``."""
        first = call.argument(0)
        if not first or first[-1] % gates:
            return UNKNOWN
        hidden = elements(first) // gates
        traffic = call.traffic((2 * gates + 1) * hidden, 2 * hidden)
        return Cost(GATE_OPERATIONS * hidden, traffic)

    return count


FORMULAS: dict[str, Callable[[OpCall], Cost]] = {
    "_cudnn_rnn": forward,
    "_cudnn_rnn_backward": backward,
    "_thnn_fused_lstm_cell": _cell(4),
    "_thnn_fused_gru_cell": _cell(3),
}
