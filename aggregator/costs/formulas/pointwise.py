"""Elementwise ops.

One operation per element for arithmetic, comparison and cheap activations; 20 for functions that
are computed by a series (exp, log, sqrt, pow, erf, trigonometry), which is PyProf's estimate.
Inputs broadcast; each is read once and the output written once. PyProf counted ``prod`` of the
larger input and failed on most binary ops in backward. A comparison writes one byte per element,
and masks are read as one byte.
"""

from __future__ import annotations

from aggregator.costs.formulas.call import (
    UNKNOWN,
    Cost,
    Formula,
    OpCall,
    broadcast,
    elements,
    named,
    per_element,
)

SERIES = 20
"""Operations of one exp, log, sqrt, erf, sine or power: PyProf's estimate."""
MASK_BYTES = 1

_CHEAP_UNARY = (
    "abs neg reciprocal ceil floor round trunc frac sign sgn clamp clamp_min clamp_max relu relu6 "
    "hardtanh hardshrink softshrink threshold hardsigmoid hardswish leaky_relu bitwise_not "
    "logical_not nan_to_num square positive rad2deg deg2rad conj_physical"
)
_SERIES_UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh erf erfc erfinv sigmoid logit lgamma digamma softplus log_sigmoid_forward "
    "log_sigmoid logsigmoid elu celu selu softsign tanhshrink silu mish gelu i0 polar"
)
_CHEAP_BINARY = (
    "add sub rsub subtract mul multiply div true_divide divide floor_divide remainder fmod maximum "
    "minimum fmax fmin bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__ __mul__ __add__ "
    "__sub__ __rmul__ __imul__ __iadd__ __div__ __truediv__ copysign heaviside prelu _prelu_kernel "
    "threshold_backward hardtanh_backward leaky_relu_backward hardswish_backward "
    "hardsigmoid_backward bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ dist"
)
_SERIES_BINARY = "pow float_power atan2 hypot xlogy logaddexp logaddexp2"
_COMPARISONS = (
    "eq ne lt le gt ge equal greater less greater_equal less_equal not_equal logical_and "
    "logical_or logical_xor isnan isinf isfinite isposinf isneginf signbit"
)
# Operations per element; of a backward, given the forward's input or output.
_OPERATIONS = {
    "tanh_backward": 3,
    "sigmoid_backward": 3,
    "silu_backward": SERIES + 5,
    "gelu_backward": 2 * SERIES + 8,
    "mish_backward": 2 * SERIES + 6,
    "elu_backward": SERIES + 2,
    "softplus_backward": SERIES + 3,
    "log_sigmoid_backward": SERIES + 4,
    "logit_backward": 4,
    "prelu_backward": 3,
    "addcmul": 3,
    "addcdiv": 3,
    "lerp": 3,
}


def _pointwise(operations: int, *, mask: bool = False) -> Formula:
    def count(call: OpCall) -> Cost:
        tensors = call.tensors or ((1,),)
        output = broadcast(tensors)
        if output is None:
            return UNKNOWN
        size, read = elements(output), sum(map(elements, tensors))
        written, other = (0, MASK_BYTES * size) if mask else (size, 0)
        return Cost(operations * size, call.traffic(read, written, other))

    return count


def _where(call: OpCall) -> Cost:
    """``where(condition, a, b)``."""
    output = broadcast(call.tensors)
    if output is None or not call.tensors:
        return UNKNOWN
    read = sum(map(elements, call.tensors[1:]))
    traffic = call.traffic(read, elements(output), MASK_BYTES * elements(call.tensors[0]))
    return Cost(0, traffic)


def _masked_fill(call: OpCall) -> Cost:
    """``masked_fill_(x, mask, value)``."""
    image, mask = call.argument(0), call.argument(1)
    if not image or not mask:
        return UNKNOWN
    count = elements(image)
    return Cost(0, call.traffic(count, count, MASK_BYTES * elements(mask)))


def _glu(call: OpCall) -> Cost:
    """``glu(x)``: half of x times the sigmoid of the other half."""
    count = elements(call.argument(0))
    return Cost((SERIES + 1) * count // 2, call.traffic(count, count // 2))


FORMULAS: dict[str, Formula] = {
    **named(_CHEAP_UNARY, _pointwise(1)),
    **named(_SERIES_UNARY, _pointwise(SERIES)),
    **named(_CHEAP_BINARY, _pointwise(1)),
    **named(_SERIES_BINARY, _pointwise(SERIES)),
    **named(_COMPARISONS, _pointwise(1, mask=True)),
    **{name: _pointwise(operations) for name, operations in _OPERATIONS.items()},
    "where": _where,
    "masked_fill": _masked_fill,
    # Compare a random number, scale, keep a mask (PyProf: 5 operations).
    **named("native_dropout _fused_dropout", per_element(5, other=MASK_BYTES)),
    **named("native_dropout_backward _masked_scale", per_element(2, other=MASK_BYTES)),
    "glu": _glu,
    # Random numbers: operations depend on the distribution; each number is written once.
    **named(
        "bernoulli normal uniform random exponential cauchy geometric log_normal",
        per_element(None, read=0),
    ),
}
"""By name without a trailing underscore: in-place ops cost the same."""
