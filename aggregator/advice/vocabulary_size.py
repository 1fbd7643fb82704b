"""A vocabulary whose size is no multiple of 64."""

from __future__ import annotations

import re

from aggregator.advice.evidence import kernel_evidence
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MIN_GAIN_PCT, Answer, Finding, Item, Remedy
from aggregator.advice.matmul import in_half
from aggregator.profile.arrays import Bool
from aggregator.replay.changes import speed_up_rows
from aggregator.texts import say

NAME = "vocabulary_size"
MULTIPLE = 64
LEAST = 8192  # Smaller sizes are those of layers.
PADDED_SPEEDUP = 1.3
"""Speedup of the products; 50257 padded to 50304 made a step of GPT-2 3.4% shorter on an H100."""
_SIZE = re.compile(r"(?<!\d)\d{4,9}(?!\d)")


def odd_size(shapes: str) -> int:
    """Return the size of a vocabulary in the second operand that is no multiple; 0: none."""
    operands = shapes.split(";")
    sizes = [int(size) for size in _SIZE.findall(operands[1])] if len(operands) > 1 else []
    return next((size for size in sizes if size >= LEAST and size % MULTIPLE), 0)


def advise(facts: Facts) -> Answer:
    """Find 16-bit products with the weights of a vocabulary."""
    odd = {row: size for row, text in facts.ops.shapes.items() if (size := odd_size(text))}
    rows = in_half(facts) & facts.of_ops([row in odd for row in range(len(facts.ops.names))])
    if not rows.any():
        return None
    ran = set(facts.work.op[rows].tolist())
    time_ns = float(facts.work.duration_ns[rows].sum())
    is_compiled = facts.is_training and not any(facts.ops.directions[row] == "bprop" for row in ran)
    if is_compiled:
        time_ns *= 3.0  # the two products of the backward pass are in a compiled op
    gain = facts.kernel_gain_pct(time_ns, PADDED_SPEEDUP)
    if gain < MIN_GAIN_PCT:
        return None
    # A compiled product may have the size already padded to a multiple of eight.
    padded = {-(-odd[row] // MULTIPLE) for row in ran}
    size = min(length for length in odd.values() if -(-length // MULTIPLE) in padded)
    return Finding(
        advice=NAME,
        covered_by=("unaligned_shapes",),
        remedy=None if is_compiled else _remedy(facts, rows),
        gain_pct=gain,
        problem=say(
            "Vocabulary size {size} is not a multiple of 64; its matrix products take "
            "{share:.0f}% of {span}",
            size=size,
            share=facts.share_pct(time_ns),
            span=facts.span,
        ),
        recommendation=say(
            "Pad it to {padded} in the embedding and in the last layer (with tied weights it is "
            "one tensor); the tokenizer stays as it is",
            padded=-(-size // MULTIPLE) * MULTIPLE,
        ),
        reasoning=say(
            "These products, with those of the backward pass, in 1/1.3 of their time, for the "
            "share of the time that is limited by the GPU"
        ),
        needs=say("A run with the padded vocabulary"),
        **kernel_evidence(facts, rows, Item("shape", facts.ops.shapes[min(ran)])),
    )


def _remedy(facts: Facts, rows: Bool) -> Remedy:
    faster = speed_up_rows(facts.rows_of_replay(rows), PADDED_SPEEDUP)
    return Remedy(say("with these products in 1/1.3 of their time"), (faster,))
