"""Tables of iterations, aggregations and GPUs."""

from __future__ import annotations

from dataclasses import replace

from aggregator.dldb.aggregations import DEFAULT, NAME
from aggregator.tables.spec import (
    Column,
    Join,
    Source,
    TableSpec,
    boolean,
    choice,
    identifier,
    number,
    real,
    sentence,
    text,
)
from aggregator.texts import say

_NOT_AGGREGATED = "This iteration is not aggregated."
_WITHOUT_KERNELS = ("memory", "dataloader", "io", "cpu", "other")


def _parts(alias: str) -> tuple[Column, ...]:
    def part(name: str, column: str, description: str, measured: str = "") -> Column:
        sql = f"{alias}.{column}"
        return number(f"{name}?", description, sql, measured=measured, when_null=_NOT_AGGREGATED)

    return (
        part("total_kernel_count", "total_kernel_count", "Number of kernel launches."),
        part("tc_kernel_count", "using_tc_kernel_count", "Kernels that used Tensor Cores."),
        part(
            "gpu_time_ns",
            # Databases of NVIDIA have no column of graphs.
            "duration" + "".join(f" - {alias}.{name}_duration" for name in _WITHOUT_KERNELS),
            "Time with a kernel or CUDA graph running, mean over the GPUs.",
        ),
        part("tc_duration_ns", "tc_duration", "Time with a Tensor Core kernel running."),
        part("non_tc_duration_ns", "non_tc_duration", "Time with only other kernels running."),
        part(
            "graph_duration_ns",
            "graph_duration",
            "Time with only CUDA graphs running whose kernels were not recorded.",
        ),
        part("memory_duration_ns", "memory_duration", "Time with only copies and sets running."),
        part(
            "dataloader_duration_ns",
            "dataloader_duration",
            "Time waiting for input only.",
            "dataloader_measured",
        ),
        part("io_duration_ns", "io_duration", "Time in I/O only.", "io_measured"),
        part("cpu_duration_ns", "cpu_duration", "Time with ops on the CPU only."),
        part("other_duration_ns", "other_duration", "The rest of the iteration."),
        part(
            "communication_duration_ns",
            "exposed_communication_duration",
            "Time with only kernels running that move data between GPUs; part of Not TC.",
        ),
    )


def _iteration(is_profiled: str) -> tuple[Column, ...]:
    return (
        number(
            "iteration_index",
            "Index of the iteration, counted from 0 in the whole profile.",
            "t.iter_value",
        ),
        choice("kind?", "before, iteration or after."),
        boolean("is_profiled", "Whether the aggregation covers it.", is_profiled),
        number("start_time_ns", "Start, from the start of the profile.", "t.start_time"),
        number("stop_time_ns", "End, from the start of the profile.", "t.stop_time"),
        number("duration_ns", "Length of the iteration.", "t.duration"),
    )


_NO_PHASE = "No range of a phase covers the iteration."
_PHASE = (
    choice(
        "phase?",
        "Phase that covers most of the iteration: prefill, decode, train, or another name that "
        "the program gave; mixed: several.",
        when_null=_NO_PHASE,
    ),
    number("tokens?", "Tokens that its phases compute; null: unknown.", when_null=_NO_PHASE),
    number(
        "micro_steps?", "Ranges of phases that end in it.", "t.phase_parts", when_null=_NO_PHASE
    ),
)

#: Databases of DLProf have the breakdown of the aggregated iterations only.
_ITERATIONS_OF_DLPROF = TableSpec(
    name="iterations",
    title=say("Iterations"),
    source=Source(
        view="view_iterations_all",
        joins=(
            Join("view_aggregations", "a", "a.aggr_id = t.aggr_id"),
            Join(
                "view_iterations_profiled",
                "p",
                "p.iter_value = t.iter_value AND p.domain_name = :domain",
                is_copied=True,
            ),
        ),
        where="t.aggr_id = :aggr_id",
    ),
    columns=(
        *_iteration("t.iter_value BETWEEN a.iter_start AND a.iter_stop"),
        *_parts("p"),
        *_PHASE,
    ),
    default_ordering=("iteration_index",),
    key=("iteration_index",),
    lead=("iteration_index", "duration_ns"),
    hidden=(
        *("kind", "start_time_ns", "stop_time_ns", "gpu_time_ns", "graph_duration_ns"),
        *("dataloader_duration_ns", "io_duration_ns", "communication_duration_ns"),
    ),
)

ITERATIONS = replace(
    _ITERATIONS_OF_DLPROF,
    source=Source(view="view_iterations_detail"),
    columns=(*_iteration("t.is_aggregated"), *_parts("t"), *_PHASE),
    fallback=_ITERATIONS_OF_DLPROF,
)

GPUS = TableSpec(
    name="gpus",
    title=say("GPUs"),
    source=Source(view="view_gpu_devices"),
    columns=(
        identifier("device_id", "Number of the GPU.", integer=True),
        text("gpu_name", "Model of the GPU."),
        text(
            "compute_capability?", "CUDA compute capability.", "t.cuda_major || '.' || t.cuda_minor"
        ),
        number("sm_count?", "Number of streaming multiprocessors."),
        real(
            "gpu_utilization_pct",
            "Share of the aggregated time in which a kernel ran on the GPU.",
            "t.device_gpu_utilization",
        ),
        number("memory_total_bytes?", "Memory of the GPU.", "t.memory_total"),
        number(
            "memory_used_bytes?",
            "Most memory in use at once during the run; null: not recorded.",
            "t.memory_used",
            when_null="The capture does not record the memory of the GPU.",
        ),
    ),
    default_ordering=("device_id",),
    lead=("device_id", "gpu_name", "gpu_utilization_pct"),
    key=("device_id", "gpu_name"),
)

KEY_NODE_CANDIDATES = TableSpec(
    name="key-node-candidates",
    title=say("Candidates for the key node"),
    source=Source(view="view_key_node_candidates", where="1"),
    columns=(
        identifier("id", "Place in the order of scores.", "t.candidate_id", integer=True),
        text("name", "Range, or op.", "t.candidate_name"),
        choice("kind", "What it is.", "t.candidate_kind"),
        text("key_node", "Key node that cuts at its steps."),
        number("instances", "Instances, most of any process."),
        number("iterations", "Iterations that the key node cuts the profile into."),
        number("period_ns", "Median time between two instances.", "t.period"),
        real("evenness_pct", "How even the times between instances are.", "t.evenness"),
        real("alike_pct?", "Steps that launch the kernels of most steps.", "t.alike"),
        real("coverage_pct", "GPU time launched between first and last instance.", "t.coverage"),
        number("per_optimizer_step?", "Instances in each step of the optimizer."),
        boolean("counts", "Whether a number in its name grows by one."),
        number("score", "How well it marks the steps of the loop, from 0 to 100."),
        boolean("is_chosen", "Whether it marks the loop whose steps are the iterations."),
    ),
    default_ordering=("id",),
    key=("id",),
    lead=("name", "kind", "iterations", "score"),
)

_UNKNOWN_TOKENS = "The program or its serving engine does not say how many tokens it computes."

_UNKNOWN_RATE = (
    "The program or its serving engine does not say how many tokens it computes, or the time of a "
    "step is unknown: there are no two, or the program launches them faster than the GPU runs them."
)

_NO_UNPROFILED_STEP = "Fewer than three steps of this phase were timed without profiling."

_NO_BANDWIDTH = (
    "The bandwidth of the GPU is not known, CUDA graphs were recorded as a whole "
    "(--graph_nodes=true records their kernels), the kernels that moved the data have no op, or "
    "caches gave most of it: it is more than the memory can move. Or the program launches the "
    "steps faster than the GPU runs them."
)

PHASES = TableSpec(
    name="phases",
    title=say("Phases"),
    source=Source(view="view_phases", where="t.aggr_id = :aggr_id"),
    columns=(
        text("phase", "Prefill, decode, train, or another name that the program gave."),
        number("iterations", "Aggregated iterations of the phase.", "t.phase_iterations"),
        number("duration_ns", "Time of these iterations.", "t.duration"),
        number(
            "tokens?",
            "Tokens computed: prompt tokens of a prefill, new ones of decoding.",
            when_null=_UNKNOWN_TOKENS,
        ),
        real(
            "sequences?",
            "Sequences in a batch, mean.",
            when_null="The program or its serving engine does not say how many sequences a batch "
            "has.",
        ),
        real("micro_steps", "Ranges of the phase in an iteration, mean.", "t.phase_parts"),
        real("tokens_per_second?", "Tokens per second.", when_null=_UNKNOWN_RATE),
        number(
            "token_interval_ns?",
            "Decoding: time from one token of a sequence to the next.",
            "t.token_interval",
            when_null="Known for decoding only, if the tokens, the sequences and the time of a "
            "step are.",
        ),
        number(
            "bare_step_ns?",
            "Step of this phase that ran without profiling, median.",
            "t.bare_phase_step",
            when_null=_NO_UNPROFILED_STEP,
        ),
        real(
            "bare_tokens_per_second?",
            "Tokens of an iteration by the median step without profiling.",
            when_null=_NO_UNPROFILED_STEP,
        ),
        real("gpu_busy_pct", "Share of the time in which the GPU ran kernels or CUDA graphs."),
        real("tc_time_pct?", "Share of that time in which a Tensor Core kernel ran."),
        real("mfu_at_least_pct?", "Model FLOPs utilization, at least.", "t.mfu_at_least"),
        real(
            "bandwidth_pct?",
            "Share of the memory bandwidth that the known data of the ops takes: a lower bound.",
            when_null=_NO_BANDWIDTH,
        ),
        real("known_pct?", "GPU time of ops with known data or operations."),
    ),
    default_ordering=("-duration_ns",),
    key=("phase",),
    lead=("phase", "iterations", "duration_ns", "tokens_per_second"),
)

NAME_EVIDENCE = TableSpec(
    name="name-evidence",
    title=say("Kernel-to-op matching"),
    source=Source(view="view_name_evidence", is_summed=True),
    columns=(
        text("name_grade", "How it is known to which op the GPU's work belongs."),
        number("num_ops", "Ops."),
        number("kernel_calls", "Kernels."),
        number("gpu_time_ns", "GPU time of the kernels.", "t.gpu_time_sum"),
        real("gpu_time_pct?", "Share of the GPU time of all kernels."),
        sentence("name_reason?", "What the evidence is, or why it is unknown."),
    ),
    default_ordering=("-gpu_time_ns",),
    key=("name_grade", "name_reason"),
    lead=("name_grade", "gpu_time_ns", "gpu_time_pct"),
)

AGGREGATIONS = TableSpec(
    name="aggregations",
    title=say("Aggregations"),
    source=Source(
        view="view_aggregations",
        joins=(
            Join("view_profile_info", "n", f"n.key = '{NAME}' || t.aggr_id"),
            Join("view_profile_info", "d", f"d.key = '{DEFAULT}' AND d.value = '' || t.aggr_id"),
        ),
        where="1",
    ),
    columns=(
        identifier("id", "Number of the aggregation.", "t.aggr_id", integer=True),
        text("name?", "Name given by a user; null: none.", "n.value"),
        boolean("is_default?", "Whether it is shown first.", "d.value IS NOT NULL"),
        number("iter_start", "First aggregated iteration."),
        number("iter_stop", "Last aggregated iteration, inclusive."),
        number("iter_aggregated", "Number of aggregated iterations."),
        text("key_node", "Op that marks an iteration; empty: none found.", "t.key_node_name"),
        sentence("key_node_reason?", "Why that op."),
        text("phase?", "Phase of the aggregated iterations; empty: all."),
        boolean("is_steady?", "Whether it covers the steady range, which the import adds."),
        sentence("steady_note?", "What the steady range leaves out, or why there is none."),
        number("steps?", "Aggregated iterations without the one before the loop."),
        number("iter_median_ns?", "Median time of a step.", "t.iter_median"),
        number("iter_p10_ns?", "10th percentile of the times of the steps.", "t.iter_p10"),
        number("iter_p90_ns?", "90th percentile of the times of the steps.", "t.iter_p90"),
        text("created_at", "When the aggregation was made.", "t.aggr_start"),
    ),
    default_ordering=("id",),
    key=("id",),
)
