"""Tables of the ranks of a distributed job and of their collectives."""

from __future__ import annotations

from aggregator.query.spec import (
    Source,
    TableSpec,
    choice,
    number,
    real,
    sentence,
    text,
)
from aggregator.texts import say

_WHOLE_RUN = "t.aggr_id = :aggr_id"

RANKS = TableSpec(
    name="ranks",
    title=say("Ranks"),
    source=Source(view="view_ranks", where=_WHOLE_RUN),
    columns=(
        number("rank", "t.rank", "Number of the rank."),
        text("host_name", "t.host_name", "Machine that it ran on; empty: unknown."),
        number("device_id", "t.device_id", "GPU that it used most.", nullable=True),
        number("host_device_id", "t.host_device_id", "Its number there.", nullable=True),
        real(
            "gpu_utilization_pct",
            "t.gpu_utilization",
            "Time with a kernel running on its GPU.",
            nullable=True,
        ),
        number(
            "computing_ns",
            "t.computing_ns",
            "Time with a kernel that computes running.",
            nullable=True,
        ),
        real(
            "imbalance_pct",
            "t.imbalance_pct",
            "Its computing time against the mean of all ranks.",
            nullable=True,
        ),
        number(
            "communication_ns",
            "t.communication_ns",
            "Time with a kernel running that moves data between GPUs.",
            nullable=True,
        ),
        number(
            "exposed_communication_ns",
            "t.exposed_communication_ns",
            "Of it, while no kernel computed.",
            nullable=True,
        ),
        number(
            "waiting_ns",
            "t.waiting_ns",
            "Waiting for other ranks in collectives; null: unknown.",
            nullable=True,
        ),
        real("waiting_pct", "t.waiting_pct", "Of the aggregated time.", nullable=True),
        number("times_last", "t.times_last", "Collectives in which others waited for it."),
        number(
            "kept_waiting_ns",
            "t.kept_waiting_ns",
            "Waiting of the others in those.",
            nullable=True,
        ),
        number("collective_count", "t.collective_count", "Collectives that it took part in."),
        number("unmatched_count", "t.unmatched_count", "Those no other rank was found in."),
        number("kernel_count", "t.kernel_count", "Kernels that it launched."),
        choice("aligned_by", "t.aligned_by", "What brought its clock to the others'."),
        number(
            "clock_offset_ns",
            "t.clock_offset_ns",
            "Added to its times; null: unknown.",
            nullable=True,
        ),
        number(
            "clock_residual_ns",
            "t.clock_residual_ns",
            "How far its ends of collectives lie from the reference's; null: none matched.",
            nullable=True,
        ),
        text("source_file", "t.source_file", "File that it was read from."),
        number("process_id", "t.process_id", "Process id on its machine."),
    ),
    default_ordering=("rank",),
    key=("rank",),
)

COLLECTIVES = TableSpec(
    name="collectives",
    title=say("Collectives"),
    source=Source(view="view_collectives", where=_WHOLE_RUN),
    columns=(
        number("sequence", "t.sequence", "Number of the call; null: unmatched.", nullable=True),
        number("communicator", "t.communicator", "Group of ranks, from 1.", nullable=True),
        choice("collective_name", "t.collective_name", "AllReduce, Broadcast, ..."),
        number("rank", "t.rank", "Number of the rank."),
        number(
            "waiting_ns",
            "t.waiting_ns",
            "Between its start and that of the last rank it waited for; null: unknown.",
            nullable=True,
        ),
        number("duration_ns", "t.duration", "Length of the kernel."),
        number("start_time_ns", "t.start_time", "On the GPU, from the start of the profile."),
        number("iteration_index", "t.iter_value", "Iteration that launched it."),
        number("rank_count", "t.num_ranks", "Ranks found in the call."),
        number(
            "kept_waiting_ns",
            "t.kept_waiting_ns",
            "Waiting of all others, where it came last.",
            nullable=True,
        ),
        number("bytes", "t.bytes", "What the rank put in; null: not recorded.", nullable=True),
        text("kernel_name", "t.kernel_name", "Kernel that ran it."),
        sentence("bytes_unknown", "t.bytes_unknown", "Why bytes is null; empty: it is not."),
    ),
    default_ordering=("-waiting_ns",),
    key=("start_time_ns", "rank"),
)
