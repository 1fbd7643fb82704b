"""Tables of the ranks of a distributed job and of their collectives."""

from __future__ import annotations

from aggregator.tables.spec import Source, TableSpec, choice, number, real, sentence, summed, text
from aggregator.texts import say

_UNMATCHED = "It was not found on any other rank."
_WHOLE_RUN = "t.aggr_id = :aggr_id"

RANKS = TableSpec(
    name="ranks",
    title=say("Ranks"),
    source=Source(view="view_ranks", where=_WHOLE_RUN),
    columns=(
        number("rank", "Number of the rank; the link leads to its ops."),
        text("host_name", "Machine that it ran on; empty: unknown."),
        number("device_id?", "GPU that it used most."),
        number("host_device_id?", "Number of the GPU on its machine."),
        real(
            "gpu_utilization_pct?",
            "Share of the aggregated time in which a kernel ran on the GPU.",
            "t.gpu_utilization",
        ),
        summed("busy_ns?", "Time in which kernels, graphs, copies or sets ran on the GPU."),
        summed("computing_ns?", "Time in which kernels ran that do not move data between GPUs."),
        real("imbalance_pct?", "Its computing time compared with the mean of all ranks."),
        summed("communication_ns?", "Time in which kernels ran that move data between GPUs."),
        summed(
            "exposed_communication_ns?",
            "Time in collectives, waiting included, while no kernel computed.",
        ),
        summed(
            "exposed_waiting_ns?",
            "The part of it in which its collectives waited for other ranks.",
            when_null=_UNMATCHED,
        ),
        summed(
            "exposed_transfer_ns?",
            "The rest of it, in which data moved between GPUs.",
            when_null=_UNMATCHED,
        ),
        summed(
            "waiting_ns?",
            "Time in collectives before the last rank arrived, hidden by computing or not; null: "
            "unknown.",
            title="Waiting, hidden or not",
            when_null=_UNMATCHED,
        ),
        real(
            "waiting_pct?",
            "Waiting, hidden by computing or not, as a share of the aggregated time.",
            when_null=_UNMATCHED,
        ),
        number("times_last", "Collectives in which the other ranks waited for this one."),
        summed(
            "kept_waiting_ns?",
            "Time that the other ranks together waited for this one.",
            when_null=_UNMATCHED,
        ),
        summed("collective_count", "Collectives that it took part in."),
        number("unmatched_count", "Collectives that were found on no other rank."),
        summed("kernel_count", "Number of kernel launches."),
        choice("aligned_by", "How its clock was aligned with the other ranks."),
        number("clock_offset_ns?", "Offset added to its times; null: unknown."),
        number(
            "clock_residual_ns?",
            "Median distance of its ends of collectives from those of the first rank.",
            unit="µs",
            when_null="There was nothing to compare it with.",
        ),
        text("source_file", "File that it was read from."),
        number("process_id", "Process ID on its machine."),
    ),
    default_ordering=("rank",),
    key=("rank",),
    lead=("rank",),
    hidden=(
        "host_device_id",
        "busy_ns",
        "communication_ns",
        "kernel_count",
        "clock_offset_ns",
        "process_id",
    ),
)

COLLECTIVES = TableSpec(
    name="collectives",
    title=say("Collectives"),
    source=Source(view="view_collectives", where=_WHOLE_RUN),
    columns=(
        number("sequence?", "Number of the call; null: unmatched.", when_null=_UNMATCHED),
        number(
            "communicator?",
            "Group of ranks that call collectives together, from 1.",
            when_null=_UNMATCHED,
        ),
        choice("collective_name", "Name of the collective (AllReduce)."),
        number("rank", "Number of the rank."),
        number(
            "waiting_ns?",
            "Time between its start and that of the last rank that it waited for; null: unknown.",
            when_null=_UNMATCHED,
        ),
        number("duration_ns", "Duration of the kernel.", "t.duration"),
        number("start_time_ns", "Start on the GPU, from the start of the profile.", "t.start_time"),
        number("iteration_index", "Iteration that launched it.", "t.iter_value"),
        number("rank_count", "Number of ranks found in the call.", "t.num_ranks"),
        number(
            "kept_waiting_ns?",
            "Time that the other ranks together waited for this one.",
            when_null=_UNMATCHED,
        ),
        number(
            "bytes?",
            "Data that this rank put into the collective; null: not recorded.",
            when_null="Neither a range around the call nor the kernel's name contains the size.",
        ),
        text("kernel_name", "Kernel that ran it."),
        sentence("bytes_unknown?", "Why bytes is null; empty if it is not."),
    ),
    default_ordering=("-waiting_ns",),
    lead=("sequence", "collective_name", "rank", "waiting_ns", "duration_ns", "bytes"),
    hidden=("bytes_unknown",),
    key=("start_time_ns", "rank"),
)

RANK_ITERATIONS = TableSpec(
    name="rank-iterations",
    title=say("Ranks by iteration"),
    source=Source(view="view_rank_iterations", where=_WHOLE_RUN),
    columns=(
        number("iteration_index", "Iteration that launched the collectives.", "t.iter_value"),
        number("rank", "Number of the rank."),
        number("collective_count", "Collectives that it took part in."),
        number("waiting_ns?", "Time that it waited in them.", when_null=_UNMATCHED),
        number(
            "kept_waiting_ns?",
            "Time that the other ranks together waited for this one.",
            when_null=_UNMATCHED,
        ),
    ),
    default_ordering=("iteration_index",),
    key=("iteration_index", "rank"),
)
