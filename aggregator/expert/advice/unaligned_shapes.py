"""16-bit matrix products whose sizes are no multiples of eight."""

from __future__ import annotations

import re

from aggregator.expert.advice.evidence import op_items, ops_link
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import (
    LEAST_GAIN_PCT,
    MEDIUM_GAIN_PCT,
    Answer,
    Certainty,
    Finding,
    Item,
    Unknown,
)
from aggregator.expert.advice.matmul import in_half
from aggregator.expert.advice.queries import kernels_proof
from aggregator.texts import say

NAME = "unaligned_shapes"
MULTIPLE = 8
"""16 bytes of 16-bit values, which one load of a Tensor Core kernel takes."""
SLOW_KERNEL = re.compile(r"align[124]\b|_align[124]_", re.I)
"""Names of CUTLASS kernels made for values that lie anywhere."""
SLOW_SPEEDUP = 2.5
"""What an aligned kernel wins over one of these; measured 3.8 on an H200."""
OTHER_SPEEDUP = 1.15
"""What padding wins where the library found an aligned kernel all the same."""
_SIZE = re.compile(r"(?<!\d)-?\d{1,18}(?!\d)")
LEAST_PRODUCTS_PCT = 20.0
"""Without recorded shapes the question is only worth asking above this share of the step."""


def is_unaligned(shapes: str, op_type: str) -> bool:
    """Whether sizes that lie next to each other in memory are no multiples of eight.

    Of convolutions only the channels count; a batch of any size is fine for them.
    """
    operands = [[int(size) for size in _SIZE.findall(part)] for part in shapes.split(";")[:2]]
    operands = [sizes for sizes in operands if sizes]
    if len(operands) < 2:
        return False
    if op_type.startswith("conv"):
        sizes = [operands[1][0], operands[0][1] if len(operands[0]) > 1 else 0]
        return any(size % MULTIPLE for size in sizes if size > MULTIPLE)
    sizes = [operands[0][-1], *operands[1][-2:]]
    return any(size % MULTIPLE for size in sizes if size > MULTIPLE)


def advise(facts: Facts) -> Answer:
    """Told by the recorded shapes, and by kernels that are made for unaligned operands."""
    products = in_half(facts)
    if not products.any():
        return None
    time = facts.work.duration_ns
    slow = products & facts.named([bool(SLOW_KERNEL.search(name)) for name in facts.names.long])
    shapes, types = facts.ops.shapes, facts.ops.types
    odd = [row in shapes and is_unaligned(shapes[row], types[row]) for row in range(len(types))]
    if not shapes and not slow.any():
        if facts.share_pct(int(time[products].sum())) < LEAST_PRODUCTS_PCT:
            return None
        return Unknown(
            NAME,
            say("Whether sizes are multiples of 8 cannot be told: no shapes were recorded"),
            say("Shapes of tensors: emit_nvtx(record_shapes=True), or dlprof's own markers"),
        )
    rows = products & (slow | facts.of_ops(odd))
    slow_ns, other_ns = int(time[slow].sum()), int(time[rows & ~slow].sum())
    gain = facts.kernel_gain_pct(slow_ns, SLOW_SPEEDUP)
    gain += facts.kernel_gain_pct(other_ns, OTHER_SPEEDUP)
    if gain < (LEAST_GAIN_PCT if slow_ns else MEDIUM_GAIN_PCT):
        return None
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=say(
            "16-bit matrix products whose sizes are no multiples of 8 take {share:.0f}% of the "
            "step",
            share=facts.share_pct(slow_ns + other_ns),
        ),
        recommendation=say(
            "Pad layer widths, channels, vocabulary and batch to multiples of 8 (of 64 is better "
            "still)"
        ),
        reasoning=say(
            "Kernels made for unaligned operands at 1/2.5 of their time, others of such shapes at "
            "1/1.15, as far as the GPU sets the pace"
        ),
        certainty=Certainty.SURE if slow_ns else Certainty.POSSIBLE,
        frameworks="PyTorch, TensorFlow",
        needs=None if slow_ns else say("A run with padded sizes tells"),
        evidence=(*op_items(facts, rows), *_shapes(facts, odd)),
        proof=kernels_proof(facts, rows),
        link=ops_link(facts, rows),
    )


def _shapes(facts: Facts, odd: list[bool]) -> tuple[Item, ...]:
    texts = sorted({facts.ops.shapes[row] for row, is_odd in enumerate(odd) if is_odd})
    return tuple(Item("shape", text) for text in texts[:3])
