"""16-bit matrix products whose sizes are not multiples of eight."""

from __future__ import annotations

import re

from aggregator.advice.evidence import kernels_proof, op_items, ops_link
from aggregator.advice.facts import Facts
from aggregator.advice.finding import (
    MEDIUM_GAIN_PCT,
    MIN_GAIN_PCT,
    Answer,
    Finding,
    Item,
    Remedy,
    Unknown,
)
from aggregator.advice.matmul import in_half
from aggregator.profile.arrays import Bool
from aggregator.replay.changes import speed_up_rows
from aggregator.texts import say

NAME = "unaligned_shapes"
MULTIPLE = 8  # A Tensor Core kernel loads 16 bytes at once, which are eight 16-bit values.
SLOW_KERNEL = re.compile(r"align[124]\b|_align[124]_", re.I)
"""Names of CUTLASS kernels for unaligned operands."""
SLOW_SPEEDUP = 2.5  # Speedup of an aligned kernel over one of these; 3.8 was measured on an H200.
OTHER_SPEEDUP = 1.15  # Speedup of padding if the library chose an aligned kernel anyway.
_SIZE = re.compile(r"(?<!\d)-?\d{1,18}(?!\d)")
MIN_PRODUCTS_PCT = 20.0
"""Without recorded shapes the question is asked only above this share of the step."""


def is_unaligned(shapes: str, op_type: str) -> bool:
    """Return whether the sizes that are contiguous in memory are not multiples of eight.

    For convolutions only the channels are checked; their batch may have any size.
    """
    operands = _operands(shapes)
    if len(operands) < 2:
        return False
    if op_type.startswith("conv"):
        sizes = [operands[1][0], operands[0][1] if len(operands[0]) > 1 else 0]
        return any(size % MULTIPLE for size in sizes if size > MULTIPLE)
    sizes = [operands[0][-1], *operands[1][-2:]]
    return any(size % MULTIPLE for size in sizes if size > MULTIPLE)


def _operands(shapes: str) -> list[list[int]]:
    """Return the sizes of the first two operands; an operand without sizes is left out."""
    operands = [[int(size) for size in _SIZE.findall(part)] for part in shapes.split(";")[:2]]
    return [sizes for sizes in operands if sizes]


def _has_aligned_channels(shapes: str, op_type: str) -> bool:
    """Return whether it is a convolution for which there is nothing to pad.

    Its kernel for unaligned operands then comes from its positions, which are contiguous in NCHW.
    """
    operands = _operands(shapes)
    if not op_type.startswith("conv") or len(operands) < 2 or len(operands[0]) < 2:
        return False
    return not any(size % MULTIPLE for size in (operands[0][1], *operands[1][:2]))


def advise(facts: Facts) -> Answer:
    """Find them by the recorded shapes, and by kernels for unaligned operands."""
    products = in_half(facts)
    if not products.any():
        return None
    time = facts.work.duration_ns
    slow = products & facts.named([bool(SLOW_KERNEL.search(name)) for name in facts.names.long])
    shapes, types = facts.ops.shapes, facts.ops.types
    if slow.any():
        slow &= ~facts.of_ops(
            [_has_aligned_channels(shapes.get(row, ""), types[row]) for row in range(len(types))]
        )
    odd = [row in shapes and is_unaligned(shapes[row], types[row]) for row in range(len(types))]
    if not shapes and not slow.any():
        if facts.share_pct(int(time[products].sum())) < MIN_PRODUCTS_PCT:
            return None
        return Unknown(
            NAME,
            say("Whether sizes are multiples of 8 is unknown: no shapes were recorded"),
            say("Tensor shapes: emit_nvtx(record_shapes=True), or the markers of dlprof"),
        )
    rows = products & (slow | facts.of_ops(odd))
    slow_ns, other_ns = int(time[slow].sum()), int(time[rows & ~slow].sum())
    gain = facts.kernel_gain_pct(slow_ns, SLOW_SPEEDUP)
    gain += facts.kernel_gain_pct(other_ns, OTHER_SPEEDUP)
    if gain < (MIN_GAIN_PCT if slow_ns else MEDIUM_GAIN_PCT):
        return None
    return Finding(
        advice=NAME,
        remedy=_remedy(facts, slow, rows & ~slow),
        gain_pct=gain,
        problem=say(
            "16-bit matrix products whose sizes are not multiples of 8 take {share:.0f}% of {span}",
            share=facts.share_pct(slow_ns + other_ns),
            span=facts.span,
        ),
        recommendation=say(
            "Pad layer widths, channels, vocabulary and batch to multiples of 8 (multiples "
            "of 64 are even better)"
        ),
        reasoning=say(
            "Kernels for unaligned operands in 1/2.5 of their time, other kernels with such "
            "shapes in 1/1.15, for the share of the time that is limited by the GPU"
        ),
        is_guess=not slow_ns,
        frameworks="PyTorch, TensorFlow",
        needs=None if slow_ns else say("A run with padded sizes"),
        evidence=(*op_items(facts, rows), *_shapes(facts, odd)),
        proof=kernels_proof(facts, rows),
        link=ops_link(facts, rows),
    )


def _shapes(facts: Facts, odd: list[bool]) -> tuple[Item, ...]:
    texts = sorted({facts.ops.shapes[row] for row, is_odd in enumerate(odd) if is_odd})
    return tuple(Item("shape", text) for text in texts[:3])


def _remedy(facts: Facts, slow: Bool, other: Bool) -> Remedy:
    return Remedy(
        say("with kernels for unaligned operands in 1/2.5, the others in 1/1.15 of their time"),
        (
            speed_up_rows(facts.rows_of_replay(slow), SLOW_SPEEDUP),
            speed_up_rows(facts.rows_of_replay(other), OTHER_SPEEDUP),
        ),
    )
