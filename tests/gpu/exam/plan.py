"""The programs of the exam, their interventions, and what dlprof is asked about each.

A question is a command of dlprof: ``advise NAME``, the saving that this advice promises for what it
says to do, or ``whatif`` with changes. Each was chosen before its intervention was measured.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Base:
    """A program as it is captured, and what is changed in it."""

    program: str
    words: str  # Options of the base, which all runs have.
    changes: tuple[tuple[str, str], ...]  # Further options, and the question.
    ranks: int = 1


PLAN = {
    "splats": Base(
        "splats",
        "",
        (
            ("--cached", "whatif --data-ready"),
            ("--workers=4", "advise input_bound"),
            ("--no-reads", "whatif --no-sync"),
            ("--workers=4 --no-reads", "whatif --data-ready --no-sync"),
        ),
    ),
    "atoms": Base(
        "atoms",
        "",
        (
            ("--device-loss", "whatif --no-sync=AskingLoss"),
            ("--fused", "advise unfused_optimizer"),
            ("--foreach", "whatif --fuse=*optimizer.step*"),
        ),
    ),
    "ranker": Base(
        "ranker",
        "",
        (
            ("--no-unread", "whatif --remove=Unread"),
            ("--pinned", "advise pageable_copies"),
            ("--no-log", "whatif --remove=Log"),
            ("--no-unread --no-log", "whatif --remove=Unread --remove=Log"),
        ),
    ),
    "adapters": Base(
        "adapters",
        "",
        (
            ("--merged", "whatif --remove=Scales"),
            ("--merged --average-at-once", "advise parameter_loop"),
        ),
    ),
    "detector": Base(
        "detector",
        "",
        (
            ("--batched-reads", "whatif --no-sync=Matches"),
            ("--benchmark", "advise cudnn_benchmark"),
            ("--channels-last", "advise layout_conversions"),
            ("--bf16", "whatif --half-precision"),
        ),
    ),
    "convnet": Base(
        "convnet",
        "",
        (
            ("--channels-last", "advise layout_conversions"),
            ("--bf16", "whatif --half-precision"),
            ("--benchmark", "advise cudnn_benchmark"),
            ("--fused", "advise unfused_optimizer"),
            ("--no-metrics", "whatif --remove=Metrics"),
        ),
    ),
    "words": Base(
        "words",
        "",
        (
            ("--tf32", "advise tf32_off"),
            ("--bf16", "advise half_precision"),
            ("--no-checkpoint", "advise checkpointing"),
            ("--fused", "advise unfused_optimizer"),
            ("--no-norms", "whatif --remove=Norms"),
            ("--tf32 --no-norms", "whatif --tensor-cores --remove=Norms"),
        ),
    ),
    "words_bf16": Base(
        "words",
        "--bf16 --fused --no-norms --batch=4",
        (
            ("--padded", "advise vocabulary_size unaligned_shapes"),
            ("--no-checkpoint", "advise checkpointing"),
            ("--accumulate=4", "whatif --speedup=*optimizer.step*=4x"),
        ),
    ),
    "small": Base(
        "small",
        "",
        (
            ("--graph", "whatif --graph-launch"),
            ("--compile", "advise launch_bound"),
            ("--batch=4", "advise batch_size"),
            ("--fused", "advise unfused_optimizer"),
            ("--average-at-once", "advise parameter_loop"),
            ("--no-average", "whatif --remove=Average"),
        ),
    ),
    "pictures": Base(
        "pictures",
        "",
        (
            ("--workers=4", "whatif --data-ready"),
            ("--workers=4 --pinned --persistent", "advise input_bound"),
        ),
    ),
    "pictures_short": Base(
        "pictures",
        "--epoch=10",
        (
            ("--workers=4 --pinned --persistent", "advise input_bound"),
            ("--workers=4 --persistent", "whatif --data-ready"),
        ),
    ),
    "ranks": Base("ranks", "", (("--no-pause", "whatif --rank-as-median=2"),), ranks=4),
    "group": Base(
        "group",
        "",
        (
            ("--no-communication", "whatif --no-communication"),
            ("--bucket-mb=5", "whatif --bucket-mb=5"),
            ("--bucket-mb=200", "whatif --bucket-mb=200"),
        ),
        ranks=2,
    ),
    "group_manual": Base(
        "group",
        "--manual",
        (
            ("--no-communication", "whatif --no-communication"),
            ("--overlapped", "whatif --overlap-communication"),
        ),
        ranks=2,
    ),
    "group_late": Base(
        "group", "--late-python=20", (("--none-late", "whatif --rank-as-median=1"),), ranks=2
    ),
    "group_late_kernel": Base(
        "group", "--late-kernel=20", (("--none-late", "whatif --rank-as-median=1"),), ranks=2
    ),
    "group_late_loader": Base(
        "group",
        "--late-loader=50 --every=5",
        (("--none-late", "whatif --rank-as-median=1"),),
        ranks=2,
    ),
}
"""Bases by name."""
