"""Kernels that convert tensor layouts for convolutions."""

from __future__ import annotations

import re

import numpy as np

from aggregator.advice.dlprof.pytorch import is_convolution
from aggregator.advice.evidence import kernel_items, kernels_proof, ops_link
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MIN_GAIN_PCT, Answer, Finding, Remedy, Unknown
from aggregator.kernels.names import LAYOUT_CONVERSION
from aggregator.replay.changes import NCHW_NORM, channels_last
from aggregator.texts import say

NAME = "layout_conversions"
MIN_KERNEL_PCT = 5.0
"""A smaller share of the kernel time is normal: a channels-last model still converts its
three-channel input."""
MOST_BROKEN = 0.2
"""With such ops between a larger share of the convolutions channels last is not advised: it made a
model with group normalizations 16% slower on an H200, where 15% less was predicted."""
_BREAKS = re.compile(
    r"(?:group|instance)_?norm|^(?:native_)?layer_norm$|^(?:reshape|contiguous|permute|transpose)$"
    r"|^(?:im2col|col2im|unfold|fold|pixel_(?:un)?shuffle|channel_shuffle|native_channel_shuffle)$"
    r"|^(?:scaled_dot_product_attention|bmm|matmul|einsum)$",
    re.I,
)
"""Types of ops that need or make tensors in the contiguous layout, where they launch a kernel."""


def ops_between(facts: Facts) -> tuple[list[str], float]:
    """Return types of ops between convolutions that end the layout, and how many have such ops.

    Work is read in the order of its launches in the forward pass; a reshape that launches nothing
    is a view. The second value is the share of the pairs of convolutions in a row.
    """
    ops, work = facts.ops, facts.work
    kinds = np.array([1 if is_convolution(kind) else 0 for kind in ops.types], dtype=np.int64)
    kinds[[bool(_BREAKS.search(kind)) for kind in ops.types]] = 2
    kinds[[side not in ("", "fprop") for side in ops.directions]] = 0
    breaks, pairs, types = 0, 0, set[str]()
    for gpu in facts.gpus:
        rows = np.flatnonzero(facts.kernels & (work.device == gpu.device))
        rows = rows[np.argsort(work.api_start_ns[rows], kind="stable")]
        op = work.op[rows]
        kind = kinds[op]
        op, kind = op[kind > 0], kind[kind > 0]
        is_new = np.diff(op, prepend=-1) != 0
        op, kind = op[is_new], kind[is_new]
        section = np.cumsum(kind == 1)
        inside = (section > 0) & (section < section[-1]) if len(section) else section > 0
        breaks += len(np.unique(section[inside & (kind == 2)]))
        pairs += max(int((kind == 1).sum()) - 1, 0)
        types |= {ops.types[row] for row in np.unique(op[inside & (kind == 2)]).tolist()}
    return sorted(types), breaks / max(pairs, 1)


def advise(facts: Facts) -> Answer:
    """Find conversions that cuDNN runs around its Tensor Core kernels, which use channels last."""
    rows = facts.kernels & facts.named(
        [bool(LAYOUT_CONVERSION.search(n)) for n in facts.names.long]
    )
    total = int(facts.work.duration_ns[rows].sum())
    busy = max(int(facts.work.duration_ns[facts.kernels].sum()), 1)
    gain = facts.kernel_gain_pct(total, float("inf"))
    if gain < MIN_GAIN_PCT or 100.0 * total < MIN_KERNEL_PCT * busy:
        return None
    types, broken = ops_between(facts)
    if broken > MOST_BROKEN:
        return Unknown(
            NAME,
            say(
                "Whether the channels-last layout is faster is unknown: {share:.0f}% of the kernel "
                "time converts layouts for convolutions, but ops between them need the other "
                "layout ({names}), so that it is converted there instead",
                share=100.0 * total / busy,
                names=", ".join(types[:3]),
            ),
            say(
                "Step times of both layouts: dlprof trial --base 'python train.py' --try 'python "
                "train.py --channels-last'"
            ),
        )
    share = 100.0 * total / busy
    norms = facts.kernels & facts.named([bool(NCHW_NORM.search(n)) for n in facts.names.long])
    norm_share = 100.0 * int(facts.work.duration_ns[norms].sum()) / busy
    has_norms = norm_share >= MIN_GAIN_PCT
    problem = (
        say(
            "{share:.0f}% of the kernel time converts tensor layouts for convolutions (NCHW to "
            "NHWC and back), and batch normalization, {norms:.0f}%, is slower in NCHW",
            share=share,
            norms=norm_share,
        )
        if has_norms
        else say(
            "{share:.0f}% of the kernel time converts tensor layouts for convolutions (NCHW "
            "to NHWC and back)",
            share=share,
        )
    )
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("without these conversions and their launches, with faster batch normalization"),
            (channels_last,),
            what_if="channels_last",
        ),
        gain_pct=gain,
        problem=problem,
        recommendation=say(
            "Try the channels-last layout: model.to(memory_format=torch.channels_last), and the "
            "same for each input. Time both: an op of the model that needs the other layout makes "
            "it slower"
        ),
        reasoning=say(
            "The time of these kernels, for the share of the time that is limited by the "
            "GPU: {ratio:.0f}% of the kernel time was in kernels that waited in a queue. "
            "Other kernels become faster too",
            ratio=100.0 * facts.gpu_bound_ratio,
        ),
        frameworks="PyTorch, TensorFlow",
        evidence=(*kernel_items(facts, rows), *(kernel_items(facts, norms) if has_norms else ())),
        proof=kernels_proof(facts, rows),
        link=ops_link(facts, rows | norms if has_norms else rows),
    )
