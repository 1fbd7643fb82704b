// Generated from docs/openapi.json by `npm run generate`: do not edit.

/** The shape of every list. */
export interface AdvicePage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly AdviceRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface AdviceRow {
  /** Stable name of the advice. */
  readonly advice: string | null;
  /** sure, likely or possible. */
  readonly certainty: string | null;
  /** JSON: the view that shows all of it, with its filters. */
  readonly drill_down: string | null;
  /** JSON list: ops, kernels, iterations, GPUs, settings. */
  readonly evidence: string | null;
  /** Frameworks that it applies to. */
  readonly frameworks: string | null;
  /** Time of a step that it could save; null: unknown, or per sample. */
  readonly gain_ns: number | null;
  /** Share of the iteration time that it could save; null: unknown. */
  readonly gain_pct: number | null;
  /** replay: the steps were replayed with the change; corrected: also without the costs of profiling; estimate: a formula. */
  readonly gain_source: string | null;
  /** Data that would make it certain. */
  readonly needs: string | null;
  /** Position: what could save most comes first. */
  readonly place: number;
  /** The problem, or why it cannot be judged. */
  readonly problem: string | null;
  /** Column of that row. */
  readonly proof_column: string | null;
  /** SQL on the public views that proves it in one row. */
  readonly proof_query: string | null;
  /** Value of the column. */
  readonly proof_value: number | null;
  /** How the number was computed. */
  readonly reasoning: string | null;
  /** What to do. */
  readonly recommendation: string | null;
  /** high, medium or low. */
  readonly severity: string | null;
  /** found, or unknown: the profile does not contain the data. */
  readonly status: string | null;
}

/** A change of an aggregation; what is left out stays as it is. */
export interface AggregationChange {
  /** Whether the profile is opened with it. */
  readonly is_default?: boolean;
  /** New name; empty: no name. */
  readonly name?: string | null;
}

/** What a job was asked to aggregate. */
export interface AggregationRequest {
  /** First iteration, inclusive. */
  readonly iter_start: number | null;
  /** Last iteration, inclusive. */
  readonly iter_stop: number | null;
  /** Op ID, op name or range name; empty: chosen from the profile. */
  readonly key_node: string;
  /** Only iterations of this phase; empty: all. */
  readonly phase: string;
}

/** The shape of every list. */
export interface AggregationsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly AggregationsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface AggregationsRow {
  /** When the aggregation was made. */
  readonly created_at: string | null;
  /** Number of the aggregation. */
  readonly id: number;
  /** Whether it is shown first. */
  readonly is_default: boolean | null;
  /** Whether it covers the steady range, which the import adds. */
  readonly is_steady: boolean | null;
  /** Number of aggregated iterations. */
  readonly iter_aggregated: number | null;
  /** Median time of a step. */
  readonly iter_median_ns: number | null;
  /** 10th percentile of the times of the steps. */
  readonly iter_p10_ns: number | null;
  /** 90th percentile of the times of the steps. */
  readonly iter_p90_ns: number | null;
  /** First aggregated iteration. */
  readonly iter_start: number | null;
  /** Last aggregated iteration, inclusive. */
  readonly iter_stop: number | null;
  /** Op that marks an iteration; empty: none found. */
  readonly key_node: string | null;
  /** Why that op. */
  readonly key_node_reason: string | null;
  /** Name given by a user; null: none. */
  readonly name: string | null;
  /** Phase of the aggregated iterations; empty: all. */
  readonly phase: string | null;
  /** What the steady range leaves out, or why there is none. */
  readonly steady_note: string | null;
  /** Aggregated iterations without the one before the loop. */
  readonly steps: number | null;
}

/** Calls with the same shapes. */
export interface CallShapes {
  readonly gpu_time_ns: number;
  readonly input_shapes: string;
  readonly num_calls: number;
  readonly output_shapes: string;
}

/** Whether a profile can be replayed. */
export interface CanReplay {
  readonly can_replay: boolean;
  /** Why not; null: it can. */
  readonly reason: string | null;
}

/** An item of the chain of one step. */
export interface ChainItem {
  /** Kernels, or calls and the times between them. */
  readonly count: number;
  readonly duration_ns: number;
  /** kernel, copy, set, graph, communication, cpu or wait. */
  readonly kind: string;
  /** First kernel or call; empty: none. */
  readonly name: string;
  /** From the start of the step. */
  readonly offset_ns: number;
  readonly op_name: string | null;
  /** Op ID; empty: of no op. */
  readonly owner: string;
}

/** The shape of every list. */
export interface CollectivesPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly CollectivesRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface CollectivesRow {
  /** Data that this rank put into the collective; null: not recorded. */
  readonly bytes: number | null;
  /** Why bytes is null; empty if it is not. */
  readonly bytes_unknown: string | null;
  /** Name of the collective (AllReduce). */
  readonly collective_name: string | null;
  /** Group of ranks that call collectives together, from 1. */
  readonly communicator: number | null;
  /** Duration of the kernel. */
  readonly duration_ns: number | null;
  /** Iteration that launched it. */
  readonly iteration_index: number | null;
  /** Time that the other ranks together waited for this one. */
  readonly kept_waiting_ns: number | null;
  /** Kernel that ran it. */
  readonly kernel_name: string | null;
  /** Number of the rank. */
  readonly rank: number;
  /** Number of ranks found in the call. */
  readonly rank_count: number | null;
  /** Number of the call; null: unmatched. */
  readonly sequence: number | null;
  /** Start on the GPU, from the start of the profile. */
  readonly start_time_ns: number;
  /** Time between its start and that of the last rank that it waited for; null: unknown. */
  readonly waiting_ns: number | null;
}

/** One capture of a side. */
export interface CompareCapture {
  readonly aggregation: number;
  /** GPUs that ran work. */
  readonly gpus: number;
  /** First compared iteration. */
  readonly iter_start: number;
  /** Last compared iteration, inclusive. */
  readonly iter_stop: number;
  readonly key_node: string;
  readonly name: string;
}

/** The same time by what the GPU did or waited for. */
export interface CompareCause {
  /** Exact: a whole number, or a decimal as text. */
  readonly base_ns: number | string;
  readonly cause: string;
  /** Exact: a whole number, or a decimal as text. */
  readonly difference_ns: number | string;
  /** Exact: a whole number, or a decimal as text. */
  readonly new_ns: number | string;
}

/** Time of a class per step. */
export interface CompareClass {
  /** Exact: a whole number, or a decimal as text. */
  readonly base_ns: number | string;
  readonly class: string;
  /** Exact: a whole number, or a decimal as text. */
  readonly difference_ns: number | string;
  /** Exact: a whole number, or a decimal as text. */
  readonly new_ns: number | string;
}

/** The sum of all rows below a path. */
export interface CompareModule {
  /** Mean per step on the base side. */
  readonly base_ns: number;
  /** Mean per step on the new side. */
  readonly new_ns: number;
  /** As that of the rows; a slash for the whole step. */
  readonly path: string;
}

/** Where the time of both sides is. */
export interface CompareModules {
  readonly modules: readonly CompareModule[];
}

/** What one op owns of a class. */
export interface CompareRow {
  readonly base_kernels: readonly string[];
  /** Path and name on the base side, where it differs. */
  readonly base_name: string;
  /** Exact: a whole number, or a decimal as text. */
  readonly base_ns: number | string;
  readonly class: string;
  /** Exact: a whole number, or a decimal as text. */
  readonly difference_ns: number | string;
  readonly direction: string;
  /** 95 % interval. */
  readonly interval_ns: readonly number[] | null;
  readonly mann_whitney_p: number | null;
  /** same, aligned, module, only_base or only_new. */
  readonly match: string;
  readonly module: string;
  readonly new_kernels: readonly string[];
  /** Exact: a whole number, or a decimal as text. */
  readonly new_ns: number | string;
  readonly op: string;
  readonly op_type: string;
  readonly q_value: number | null;
  /** Why the GPU was idle, or empty. */
  readonly reason: string;
  /** faster, slower, same or cannot tell. */
  readonly verdict: string;
  readonly within_pct: number | null;
}

/** Something else that differs. */
export interface CompareSetting {
  readonly base: string;
  readonly key: string;
  readonly new: string;
}

/** The base, or the new side. */
export interface CompareSide {
  readonly captures: number;
  readonly iterations: number;
  readonly median_ns: number;
  readonly sources: readonly CompareCapture[];
  /** Mean step. Exact: a whole number, or a decimal as text. */
  readonly step_ns: number | string;
}

/** A rank compared with the others. */
export interface ComparedRank {
  /** Share of the step that its slowness costs; null: as above. */
  readonly contribution_pct: number | null;
  /** Mean own time in a step less the median of the others. */
  readonly late_ns: number;
  readonly rank: number;
  /** Step without its slowness, as step_ns; null: not replayed. */
  readonly step_without_ns: number | null;
}

/** Why the step changed. */
export interface Comparison {
  readonly base: CompareSide;
  readonly causes: readonly CompareCause[];
  readonly classes: readonly CompareClass[];
  /** Whether the interval covers changes from run to run. */
  readonly covers_runs: boolean;
  /** Exact: a whole number, or a decimal as text. */
  readonly difference_ns: number | string;
  readonly headline: string;
  /** 95 % interval. */
  readonly interval_ns: readonly number[] | null;
  readonly new: CompareSide;
  readonly notes: readonly string[];
  readonly rows: readonly CompareRow[];
  readonly setup: readonly CompareSetting[];
  /** faster, slower, same or cannot tell. */
  readonly verdict: string;
}

/** Why the step changed, without the rows. */
export interface ComparisonSummary {
  readonly base: CompareSide;
  readonly causes: readonly CompareCause[];
  readonly classes: readonly CompareClass[];
  /** Whether the interval covers changes from run to run. */
  readonly covers_runs: boolean;
  /** Exact: a whole number, or a decimal as text. */
  readonly difference_ns: number | string;
  readonly headline: string;
  /** 95 % interval. */
  readonly interval_ns: readonly number[] | null;
  readonly new: CompareSide;
  readonly notes: readonly string[];
  /** Number of rows. */
  readonly rows: number;
  readonly setup: readonly CompareSetting[];
  /** faster, slower, same or cannot tell. */
  readonly verdict: string;
}

/** What the steps wait for. */
export interface CriticalPath {
  /** In order of time. */
  readonly chain: readonly ChainItem[];
  /** high, medium or low. */
  readonly confidence: string;
  /** Of all steps, longest first. */
  readonly critical_path: readonly PathShare[];
  readonly error_pct: ErrorPct;
  /** Whether it is without the costs of profiling. */
  readonly is_corrected: boolean;
  /** Iteration of the chain. */
  readonly iteration_index: number;
  /** The iterations that were replayed. */
  readonly iterations: readonly number[];
  /** Median of the measured steps. */
  readonly measured_step_ns: number;
  /** What lowers the confidence. */
  readonly notes: readonly string[];
  /** Items of the chain; the longest are listed. */
  readonly num_items: number;
  /** Median of the replayed steps. */
  readonly replayed_step_ns: number;
  /** Length of its step. */
  readonly step_ns: number;
  /** Share of the step that is unexplained idle time. */
  readonly unexplained_pct: number;
}

/** A value of a column. */
export interface DistinctValue {
  readonly count: number;
  readonly value: string | number | boolean | null;
}

/** Values of a column, most frequent first. */
export interface DistinctValues {
  readonly column: string;
  /** Whether there are more values than are listed. */
  readonly is_truncated: boolean;
  readonly results: readonly DistinctValue[];
}

/** A bar of a histogram. */
export interface DurationBin {
  /** Calls or launches of such a duration. */
  readonly num_calls: number;
  /** Shortest duration of the bin, inclusive. */
  readonly start_ns: number;
  /** End of the bin, exclusive but for the last bin. */
  readonly stop_ns: number;
}

export interface Efficiency {
  /** Data to move. */
  readonly bytes: number | null;
  /** Ideal time that operations bound. */
  readonly compute_time_ns: number | null;
  /** Floating point operations. */
  readonly flops: number | null;
  /** GB/s over GPU time. */
  readonly gbytes_per_second: number | null;
  /** Sum of the ops' GPU time. */
  readonly gpu_time_ns: number | null;
  /** Known operations of matrix products, with recomputed ones. */
  readonly hardware_flops: number | null;
  /** Hardware FLOPs utilization: with recomputed checkpoints. */
  readonly hfu_pct: number | null;
  /** Time at the GPU's peaks. */
  readonly ideal_time_ns: number | null;
  /** Of it, with known costs. */
  readonly known_pct: number | null;
  /** GPU time beyond the ideal time. */
  readonly left_time_ns: number | null;
  /** Ideal time that the bus bounds. */
  readonly link_time_ns: number | null;
  /** Those of matrix products. */
  readonly matrix_flops: number | null;
  /** Hardware FLOPs utilization, median step. */
  readonly median_step_hfu_pct: number | null;
  /** What the median step's MFU is at least. */
  readonly median_step_mfu_at_least_pct: number | null;
  /** Median over the iterations, without start-up and end. */
  readonly median_step_mfu_pct: number | null;
  /** Ideal time that memory bounds. */
  readonly memory_time_ns: number | null;
  /** What it is at least. */
  readonly mfu_at_least_pct: number | null;
  /** Model FLOPs utilization; null if products in over 20 % of GPU time are unknown, or the program launches the steps faster than the GPU runs them. */
  readonly mfu_pct: number | null;
  /** Known operations of matrix products, without recomputed ones. */
  readonly model_flops: number | null;
  /** Ideal time over GPU time. */
  readonly peak_pct: number | null;
  /** TFLOP/s over GPU time. */
  readonly tflops_per_second: number | null;
  /** TFLOP/s of matrix products per GPU, over wall time. */
  readonly tflops_per_second_per_gpu: number | null;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
  /** GPUs that ran kernels. */
  readonly used_gpu_count: number | null;
  /** Sum of the iterations. */
  readonly wall_clock_time_ns: number | null;
}

/** The one error shape. */
export interface Error {
  /** Stable name for scripts. */
  readonly code: string;
  /** Further values for scripts. */
  readonly details: Readonly<Record<string, unknown>>;
  /** What to do about it; may be empty. */
  readonly hint: string;
  /** One sentence for a person. */
  readonly message: string;
}

/** Difference of the replayed and the measured steps. */
export interface ErrorPct {
  readonly median: number;
  readonly worst: number;
}

/** A table as a JSON file. */
export interface Export {
  readonly aggregation_id: number;
  readonly columns: readonly string[];
  readonly domain: string;
  readonly profile: string;
  readonly results: readonly (Readonly<Record<string, unknown>>)[];
  readonly table: string;
}

/** A Plotly figure. */
export interface Figure {
  readonly data: readonly (Readonly<Record<string, unknown>>)[];
  readonly layout: Readonly<Record<string, unknown>>;
}

export interface GpuUtilization {
  /** The rest of the time. */
  readonly idle_gpu_pct: number | null;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
  /** Time with a kernel running, mean over the GPUs. */
  readonly using_gpu_pct: number | null;
}

/** The shape of every list. */
export interface GpusPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly GpusRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface GpusRow {
  /** CUDA compute capability. */
  readonly compute_capability: string | null;
  /** Number of the GPU. */
  readonly device_id: number;
  /** Model of the GPU. */
  readonly gpu_name: string;
  /** Share of the aggregated time in which a kernel ran on the GPU. */
  readonly gpu_utilization_pct: number | null;
  /** Memory of the GPU. */
  readonly memory_total_bytes: number | null;
  /** Most memory in use at once during the run; null: not recorded. */
  readonly memory_used_bytes: number | null;
  /** Number of streaming multiprocessors. */
  readonly sm_count: number | null;
}

/** The shape of every list. */
export interface GroupEfficiencyPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly GroupEfficiencyRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface GroupEfficiencyRow {
  /** Operations per byte to move. */
  readonly arithmetic_intensity: number | null;
  /** What limits it: compute, memory or link. */
  readonly bound: string | null;
  /** Data to move. */
  readonly bytes: number | null;
  /** Floating point operations. */
  readonly flops: number | null;
  /** Bytes to move per GPU time. */
  readonly gbytes_per_second: number | null;
  /** Time in which its GPU work ran. */
  readonly gpu_time_ns: number | null;
  /** Path of the group. */
  readonly group_name: string;
  /** Per call the longer of: operations at the peak rate, bytes at the peak bandwidth. */
  readonly ideal_time_ns: number | null;
  /** Share of the GPU time with known costs. */
  readonly known_pct: number | null;
  /** GPU time beyond the ideal time. */
  readonly left_time_ns: number | null;
  /** Operations of matrix products. */
  readonly matrix_flops: number | null;
  /** Executions with work on a GPU. */
  readonly num_calls: number | null;
  /** Number of ops below. */
  readonly num_ops: number | null;
  /** Ideal time over GPU time: 100 % is the roofline. */
  readonly peak_pct: number | null;
  /** Operations per GPU time. */
  readonly tflops_per_second: number | null;
}

/** The shape of every list. */
export interface GroupOpsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly GroupOpsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface GroupOpsRow {
  /** CPU time outside CUDA calls. */
  readonly cpu_overhead_ns: number | null;
  /** CPU time of all ops below. */
  readonly cpu_time_ns: number | null;
  /** fprop, bprop or recompute; empty: work outside every op. */
  readonly direction: string | null;
  /** Gaps between the GPU work of a call. */
  readonly gpu_idle_ns: number | null;
  /** GPU time of all ops below. */
  readonly gpu_time_ns: number | null;
  /** Path of a group, or the op_id of an op. */
  readonly id: string;
  /** group or op. */
  readonly kind: string | null;
  /** Depth of the path; 1: the root. */
  readonly level: number | null;
  /** Full path. */
  readonly name: string;
  /** Executions of the ops below. */
  readonly num_op_instances: number | null;
  /** Ops below that used Tensor Cores. */
  readonly num_ops_using_tc: number | null;
  /** Ops below that could use Tensor Cores. */
  readonly num_tc_eligible_ops: number | null;
  /** GPU memory of its ops and of the tensors of its modules at the peak. */
  readonly peak_bytes: number | null;
  /** Rank that ran the op. */
  readonly rank: number | null;
  /** Last part of the path. */
  readonly trimmed_name: string | null;
}

/** Profiles by date, and their trends. */
export interface History {
  readonly captures: readonly HistoryCapture[];
  readonly skipped: readonly HistorySkipped[];
  readonly trends: readonly HistoryTrend[];
}

/** One profile of a history. */
export interface HistoryCapture {
  readonly aggregation: number;
  readonly gpu: string;
  readonly iterations: number;
  /** Id of the profile. */
  readonly name: string;
  /** UTC; null: the profile holds no date. */
  readonly started_at: string | null;
  /** Mean step. */
  readonly step_ns: number;
}

/** Where a trend changed. */
export interface HistoryChange {
  readonly after_ns: number;
  readonly before_ns: number;
  readonly capture: string;
  /** First capture after the change. */
  readonly index: number;
  readonly p_value: number;
}

/** A profile that cannot be part of the history. */
export interface HistorySkipped {
  readonly name: string;
  readonly reason: string;
}

/** Mean time per step in every capture. */
export interface HistoryTrend {
  readonly change_points: readonly HistoryChange[];
  readonly direction: string;
  /** step, class or op. */
  readonly kind: string;
  readonly name: string;
  readonly values_ns: readonly number[];
}

/** A selected event. */
export interface Hit {
  readonly duration_ns: number;
  readonly lane: string;
  readonly name: string;
  /** Its place among the selected events by start, from 0. */
  readonly number: number;
  readonly op_id: string | null;
  /** Row of the event in its table; 0: it has none. */
  readonly row_id: number;
  readonly start_ns: number;
}

/** A lane with selected events. */
export interface HitLane {
  readonly key: string;
  readonly num_events: number;
}

/** The shape of every list. */
export interface IterationEfficiencyPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly IterationEfficiencyRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface IterationEfficiencyRow {
  /** Operations per byte to move. */
  readonly arithmetic_intensity: number | null;
  /** What limits it: compute, memory or link. */
  readonly bound: string | null;
  /** Data to move. */
  readonly bytes: number | null;
  /** Length of the iteration. */
  readonly duration_ns: number | null;
  /** Floating point operations. */
  readonly flops: number | null;
  /** Bytes to move per GPU time. */
  readonly gbytes_per_second: number | null;
  /** Time in which its GPU work ran. */
  readonly gpu_time_ns: number | null;
  /** The same with the operations of recomputed checkpoints. */
  readonly hfu_pct: number | null;
  /** Per call the longer of: operations at the peak rate, bytes at the peak bandwidth. */
  readonly ideal_time_ns: number | null;
  /** Index of the iteration. */
  readonly iteration_index: number;
  /** Share of the GPU time with known costs. */
  readonly known_pct: number | null;
  /** GPU time beyond the ideal time. */
  readonly left_time_ns: number | null;
  /** Operations of matrix products. */
  readonly matrix_flops: number | null;
  /** What the utilization is at least. */
  readonly mfu_at_least_pct: number | null;
  /** Operations of matrix products at their peak rate, over the length of the iteration. */
  readonly mfu_pct: number | null;
  /** Ideal time over GPU time: 100 % is the roofline. */
  readonly peak_pct: number | null;
  /** Operations per GPU time. */
  readonly tflops_per_second: number | null;
  /** TFLOP/s of matrix products per GPU, over the length of the iteration. */
  readonly tflops_per_second_per_gpu: number | null;
}

/** The shape of every list. */
export interface IterationKernelsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly IterationKernelsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface IterationKernelsRow {
  /** Start of the launching call, from the start of the profile. */
  readonly api_start_ns: number;
  /** Duration of the launching call on the CPU. */
  readonly api_time_ns: number | null;
  /** Size of a block, in threads. */
  readonly block: string;
  /** GPU that ran it. */
  readonly device_id: number;
  /** Duration on the GPU. */
  readonly gpu_time_ns: number;
  /** Size of the grid, in blocks. */
  readonly grid: string;
  /** Full name of the kernel. */
  readonly kernel_long_name: string | null;
  /** Short name of the kernel. */
  readonly kernel_name: string;
  /** Name of the op node, unique in the aggregation (CONV2D_1); what key_node accepts. */
  readonly op_id: string;
  /** Path of the op that launched it. */
  readonly op_name: string | null;
  /** Library, operation, types, tile and layout, from the full name. */
  readonly readable_name: string | null;
  /** Start on the GPU, from the start of the profile. */
  readonly start_time_ns: number | null;
  /** CUDA stream. */
  readonly stream_id: number | null;
  /** Whether it used Tensor Cores. */
  readonly uses_tc: boolean | null;
}

/** The shape of every list. */
export interface IterationOpKernelsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly IterationOpKernelsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface IterationOpKernelsRow {
  /** Start of the launching call, from the start of the profile. */
  readonly api_start_ns: number;
  /** Duration of the launching call on the CPU. */
  readonly api_time_ns: number | null;
  /** Size of a block, in threads. */
  readonly block: string;
  /** GPU that ran it. */
  readonly device_id: number;
  /** Duration on the GPU. */
  readonly gpu_time_ns: number;
  /** Size of the grid, in blocks. */
  readonly grid: string;
  /** Full name of the kernel. */
  readonly kernel_long_name: string | null;
  /** Short name of the kernel. */
  readonly kernel_name: string;
  /** Name of the op node, unique in the aggregation (CONV2D_1); what key_node accepts. */
  readonly op_id: string;
  /** Path of the op that launched it. */
  readonly op_name: string | null;
  /** Library, operation, types, tile and layout, from the full name. */
  readonly readable_name: string | null;
  /** Start on the GPU, from the start of the profile. */
  readonly start_time_ns: number | null;
  /** CUDA stream. */
  readonly stream_id: number | null;
  /** Whether it used Tensor Cores. */
  readonly uses_tc: boolean | null;
}

/** The shape of every list. */
export interface IterationOpsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly IterationOpsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface IterationOpsRow {
  /** Data types of the inputs. */
  readonly data_type: string | null;
  /** fprop, bprop or recompute; empty: work outside every op. */
  readonly direction: string;
  /** Sum of the durations of its kernels. */
  readonly gpu_time_ns: number | null;
  /** Name of the op node, unique in the aggregation (CONV2D_1); what key_node accepts. */
  readonly op_id: string;
  /** Path of the op in the model. */
  readonly op_name: string;
  /** Start of its first call in the iteration, from the start of the profile. */
  readonly op_start_ns: number | null;
  /** Kind of op (conv2d). */
  readonly op_type: string | null;
  /** The program's own line in the stack: the innermost outside PyTorch and Python. */
  readonly source_line: string | null;
  /** Source lines that called the op, outermost first, one per line. */
  readonly stack_trace: string | null;
  /** Sum of the durations of its Tensor Core kernels. */
  readonly tc_gpu_time_ns: number | null;
  /** Kernels that used Tensor Cores. */
  readonly tc_kernel_count: number | null;
  /** Number of kernel launches. */
  readonly total_kernel_count: number | null;
}

/** The shape of every list. */
export interface IterationsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly IterationsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface IterationsRow {
  /** Time with only kernels running that move data between GPUs; part of Not TC. */
  readonly communication_duration_ns: number | null;
  /** Time with ops on the CPU only. */
  readonly cpu_duration_ns: number | null;
  /** Time waiting for input only. */
  readonly dataloader_duration_ns: number | null;
  /** Length of the iteration. */
  readonly duration_ns: number | null;
  /** Time with a kernel or CUDA graph running, mean over the GPUs. */
  readonly gpu_time_ns: number | null;
  /** Time with only CUDA graphs running whose kernels were not recorded. */
  readonly graph_duration_ns: number | null;
  /** Time in I/O only. */
  readonly io_duration_ns: number | null;
  /** Whether the aggregation covers it. */
  readonly is_profiled: boolean | null;
  /** Index of the iteration, counted from 0 in the whole profile. */
  readonly iteration_index: number;
  /** before, iteration or after. */
  readonly kind: string | null;
  /** Time with only copies and sets running. */
  readonly memory_duration_ns: number | null;
  /** Ranges of phases that end in it. */
  readonly micro_steps: number | null;
  /** Time with only other kernels running. */
  readonly non_tc_duration_ns: number | null;
  /** The rest of the iteration. */
  readonly other_duration_ns: number | null;
  /** Phase that covers most of the iteration: prefill, decode, train, or another name that the program gave; mixed: several. */
  readonly phase: string | null;
  /** Start, from the start of the profile. */
  readonly start_time_ns: number | null;
  /** End, from the start of the profile. */
  readonly stop_time_ns: number | null;
  /** Time with a Tensor Core kernel running. */
  readonly tc_duration_ns: number | null;
  /** Kernels that used Tensor Cores. */
  readonly tc_kernel_count: number | null;
  /** Tokens that its phases compute; null: unknown. */
  readonly tokens: number | null;
  /** Number of kernel launches. */
  readonly total_kernel_count: number | null;
}

/** An aggregation or an import that runs in the background. */
export interface Job {
  /** The aggregation that it made. */
  readonly aggregation_id: number | null;
  readonly created_at: string;
  readonly error: Error | null;
  /** Estimated time left, in seconds. */
  readonly eta_s: number | null;
  readonly files: readonly RankFile[];
  readonly finished_at: string | null;
  readonly id: string;
  readonly is_cancel_requested: boolean;
  /** Number of jobs that begin before it while it waits; only at the job's own address. */
  readonly jobs_before: number | null;
  readonly kind: "aggregation" | "import";
  readonly message: string;
  /** Phase of the work; empty before it begins. */
  readonly phase: string;
  /** Profile that it works on; for an import: that it makes. */
  readonly profile_id: string;
  /** Of an import, the name of the profile; may be empty. */
  readonly profile_name: string;
  readonly progress_pct: number;
  readonly request: AggregationRequest;
  /** Profile that holds the result: another one if a database of NVIDIA's was converted. */
  readonly result_profile_id: string | null;
  readonly rows_per_s: number | null;
  readonly started_at: string | null;
  readonly state: "queued" | "running" | "done" | "failed" | "cancelled";
}

/** The shape of every list. */
export interface JobPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly Job[];
}

/** The launches of a kernel in an iteration. */
export interface KernelIteration {
  /** Sum of their durations. */
  readonly gpu_time_ns: number;
  readonly iteration_index: number;
  /** Number of launches. */
  readonly num_calls: number;
}

/** The launches of a kernel in the aggregated iterations, all ops together. */
export interface KernelLaunches {
  /** Mean duration. */
  readonly gpu_time_avg_ns: number | null;
  /** Histogram of the durations. */
  readonly gpu_time_bins: readonly DurationBin[] | null;
  /** Longest duration. */
  readonly gpu_time_max_ns: number;
  /** Shortest duration. */
  readonly gpu_time_min_ns: number;
  /** Sum of the durations. */
  readonly gpu_time_ns: number;
  readonly iterations: readonly KernelIteration[] | null;
  /** Full name; null: the address has a short name. */
  readonly kernel_long_name: string | null;
  /** Short name of the kernel. */
  readonly kernel_name: string;
  /** Full names of all kernels meant. */
  readonly long_names: readonly string[];
  /** Number of launches. */
  readonly num_calls: number;
  /** Number of ops that launched it. */
  readonly num_ops: number;
  /** Number of different launch sizes. */
  readonly num_sizes: number | null;
  /** Null if several kernels are meant. */
  readonly readable_name: string | null;
  /** Share of all kernels' time. */
  readonly share_pct: number | null;
  /** The launch sizes with the most GPU time. */
  readonly sizes: readonly LaunchSize[] | null;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
  /** Whether it used Tensor Cores; null: unknown, or some launches did. */
  readonly uses_tc: boolean | null;
}

export interface KernelSummary {
  readonly all: KernelSummaryAll;
  readonly communication: KernelSummaryCommunication;
  readonly memory: KernelSummaryMemory;
  readonly other: KernelSummaryOther;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
  readonly using_tc: KernelSummaryUsingTc;
}

export interface KernelSummaryAll {
  /** How many there are. */
  readonly count: number | null;
  /** CPU time, summed. */
  readonly cpu_time_ns: number | null;
  /** GPU time, summed. */
  readonly gpu_time_ns: number | null;
}

export interface KernelSummaryCommunication {
  /** How many there are; part of the others. */
  readonly count: number | null;
  /** GPU time, summed; part of the others. */
  readonly gpu_time_ns: number | null;
}

export interface KernelSummaryMemory {
  /** How many there are. */
  readonly count: number | null;
  /** CPU time, summed. */
  readonly cpu_time_ns: number | null;
  /** GPU time, summed. */
  readonly gpu_time_ns: number | null;
}

export interface KernelSummaryOther {
  /** How many there are. */
  readonly count: number | null;
  /** CPU time, summed. */
  readonly cpu_time_ns: number | null;
  /** GPU time, summed. */
  readonly gpu_time_ns: number | null;
}

export interface KernelSummaryUsingTc {
  /** How many there are. */
  readonly count: number | null;
  /** CPU time, summed. */
  readonly cpu_time_ns: number | null;
  /** GPU time, summed. */
  readonly gpu_time_ns: number | null;
}

/** The shape of every list. */
export interface KernelsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly KernelsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface KernelsRow {
  /** Mean duration of a launching call. */
  readonly api_time_avg_ns: number | null;
  /** Longest launching call. */
  readonly api_time_max_ns: number | null;
  /** Shortest launching call. */
  readonly api_time_min_ns: number | null;
  /** Sum of the durations of the launching calls. */
  readonly api_time_ns: number | null;
  /** fprop, bprop or recompute; empty: work outside every op. */
  readonly direction: string | null;
  /** Mean duration of a launch. */
  readonly gpu_time_avg_ns: number | null;
  /** Longest duration of a launch. */
  readonly gpu_time_max_ns: number | null;
  /** Shortest duration of a launch. */
  readonly gpu_time_min_ns: number | null;
  /** Sum of the durations of its launches. */
  readonly gpu_time_ns: number | null;
  /** Full name of the kernel. */
  readonly kernel_long_name: string | null;
  /** Short name of the kernel. */
  readonly kernel_name: string;
  /** Number of launches. */
  readonly num_calls: number | null;
  /** Name of the op node, unique in the aggregation (CONV2D_1); what key_node accepts. */
  readonly op_id: string;
  /** Path of the op that launched it. */
  readonly op_name: string | null;
  /** Library, operation, types, tile and layout, from the full name. */
  readonly readable_name: string | null;
  /** Share of all kernels' time. */
  readonly share_pct: number | null;
  /** The program's own line in the stack: the innermost outside PyTorch and Python. */
  readonly source_line: string | null;
  /** Ops that TorchInductor fused into the kernel, from its name. */
  readonly source_ops: string | null;
  /** Source lines that called the op, outermost first, one per line. */
  readonly stack_trace: string | null;
  /** Whether it used Tensor Cores. */
  readonly uses_tc: boolean | null;
}

/** The shape of every list. */
export interface KeyNodeCandidatesPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly KeyNodeCandidatesRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface KeyNodeCandidatesRow {
  /** Steps that launch the kernels of most steps. */
  readonly alike_pct: number | null;
  /** Whether a number in its name grows by one. */
  readonly counts: boolean | null;
  /** GPU time launched between first and last instance. */
  readonly coverage_pct: number | null;
  /** How even the times between instances are. */
  readonly evenness_pct: number | null;
  /** Place in the order of scores. */
  readonly id: number;
  /** Instances, most of any process. */
  readonly instances: number | null;
  /** Whether it marks the loop whose steps are the iterations. */
  readonly is_chosen: boolean | null;
  /** Iterations that the key node cuts the profile into. */
  readonly iterations: number | null;
  /** Key node that cuts at its steps. */
  readonly key_node: string | null;
  /** What it is. */
  readonly kind: string | null;
  /** Range, or op. */
  readonly name: string | null;
  /** Instances in each step of the optimizer. */
  readonly per_optimizer_step: number | null;
  /** Median time between two instances. */
  readonly period_ns: number | null;
  /** How well it marks the steps of the loop, from 0 to 100. */
  readonly score: number | null;
}

/** A row of a timeline. */
export interface Lane {
  /** Sum of the durations of its events. */
  readonly busy_ns: number | null;
  /** The GPU or thread that it belongs to. */
  readonly group: string;
  /** Its name in the address of its items. */
  readonly key: string;
  /** iterations, key (node), advice, path (the critical one), idle, work (of a GPU), modules, ops, loader, calls, waits (calls that block) or counter. */
  readonly kind: string;
  /** null: the lane is computed when its tiles are asked for. */
  readonly num_events: number | null;
  /** Of a counter; null: it is none. */
  readonly scale: Scale | null;
  /** Empty: it continues the lane before. */
  readonly title: string;
}

/** What a lane shows: columns of one length. */
export interface LaneItems {
  /** Sum of their durations. */
  readonly busy_ns: readonly number[];
  /** 0 Tensor Core kernel, 1 other kernel, 2 communication, 3 copy, 4 set, 5 CUDA graph, -1 none. */
  readonly category: readonly number[];
  /** Events; more than 1: joined short ones. */
  readonly count: readonly number[];
  readonly duration_ns: readonly number[];
  readonly key: string;
  /** Index into names; of joined events: with most time. */
  readonly name: readonly number[];
  /** Start after start_ns. */
  readonly offset_ns: readonly number[];
  /** Index of that event's op in names; -1: none. */
  readonly op: readonly number[];
  /** Row of that event in its table. */
  readonly row_id: readonly number[];
}

/** Launches of the same size. */
export interface LaunchSize {
  /** Size of a block, in threads. */
  readonly block: string;
  readonly gpu_time_ns: number;
  /** Size of the grid, in blocks. */
  readonly grid: string;
  readonly num_calls: number;
}

/** The recordings of GPU memory of a profile. */
export interface Memory {
  readonly recordings: readonly MemoryRecording[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

/** What lives after an event. */
export interface MemoryAlive {
  readonly active_bytes: number | null;
  readonly allocated_bytes: number;
  /** Place on the axis; null: before all events. */
  readonly at: number | null;
  readonly event: number;
  /** Iteration of the profile then. */
  readonly iteration_index: number | null;
  readonly kinds: readonly MemoryKind[];
  readonly num_owners: number;
  /** The 100 largest. */
  readonly owners: readonly MemoryOwner[];
  /** Time on the profile's clock. */
  readonly profile_ns: number | null;
  readonly recording: number;
  readonly reserved_bytes: number;
}

/** What is counted after some events: columns of one length. */
export interface MemoryCurve {
  readonly active_bytes: readonly number[];
  readonly allocated_bytes: readonly number[];
  /** Place on the axis. */
  readonly at: readonly number[];
  readonly event: readonly number[];
  readonly high: number;
  /** They add up to what is allocated. */
  readonly kinds: readonly MemoryCurveKind[];
  readonly low: number;
  readonly recording: number;
  readonly reserved_bytes: readonly number[];
}

/** Bytes of one kind over time. */
export interface MemoryCurveKind {
  readonly bytes: readonly number[];
  readonly kind: string;
}

/** The peaks of one GPU in two recordings. */
export interface MemoryDifference {
  readonly base_peak_allocated_bytes: number;
  readonly device: number;
  readonly difference_bytes: number;
  /** The largest difference first. */
  readonly kinds: readonly MemoryDifferencePart[];
  readonly new_peak_allocated_bytes: number;
  /** The largest difference first. */
  readonly owners: readonly MemoryDifferencePart[];
}

/** What one kind, or one owner, holds at both peaks. */
export interface MemoryDifferencePart {
  readonly base_bytes: number;
  readonly difference_bytes: number;
  readonly kind: string;
  readonly new_bytes: number;
  /** Module and op; empty: all of the kind. */
  readonly owner: string;
}

/** The peaks of two profiles. */
export interface MemoryDifferences {
  readonly differences: readonly MemoryDifference[];
}

/** Bytes of one kind. */
export interface MemoryKind {
  readonly bytes: number;
  /** parameter, gradient, optimizer state, activation, temporary, workspace or unknown. */
  readonly kind: string;
}

/** Bytes of one kind at the peak. */
export interface MemoryKindAtPeak {
  readonly bytes: number;
  /** Why most of them have that kind; empty: unknown. */
  readonly evidence: string;
  /** parameter, gradient, optimizer state, activation, temporary, workspace or unknown. */
  readonly kind: string;
}

/** What each step allocates and no later one releases. */
export interface MemoryLeak {
  /** All of it at the end. */
  readonly bytes: number;
  /** Module and op. */
  readonly name: string;
  /** Number of steps that added to it. */
  readonly steps: number;
}

/** Living allocations of one module, op and kind. */
export interface MemoryOwner {
  readonly allocations: number;
  readonly bytes: number;
  /** Why most of them have that kind; empty: unknown. */
  readonly evidence: string;
  /** parameter, gradient, optimizer state, activation, temporary, workspace or unknown. */
  readonly kind: string;
  /** Path of the module; empty: unknown. */
  readonly module: string;
  /** Op, or line of the program; empty: unknown. */
  readonly op: string;
  /** Part of the names of the module's ops. */
  readonly op_path: string | null;
  /** Call stack of a largest one, innermost first. */
  readonly stack: readonly string[];
}

/** The memory of one GPU over a recording. */
export interface MemoryRecording {
  /** time_ns: time since the first event; event: number of the event. */
  readonly axis: string;
  /** Number of the GPU, as the recorded process counts. */
  readonly device: number;
  readonly end_active_bytes: number;
  readonly end_allocated_bytes: number;
  readonly end_reserved_bytes: number;
  /** In the allocator's cache at the end. */
  readonly free_bytes: number | null;
  /** At the peak, the largest first. */
  readonly kinds: readonly MemoryKindAtPeak[];
  /** Largest block of them. */
  readonly largest_free_bytes: number | null;
  readonly leaks: readonly MemoryLeak[];
  readonly num_allocations: number;
  readonly num_events: number;
  readonly num_steps: number;
  readonly peak_allocated_bytes: number;
  /** First event after which that was; -1: before all. */
  readonly peak_event: number;
  readonly peak_reserved_bytes: number;
  /** snapshot, kineto or nsys. */
  readonly recorded_by: string;
  /** Number of the recording, from 1. */
  readonly recording: number;
  readonly source_file: string;
  /** The first 1,000 of them. */
  readonly steps: readonly MemoryStep[];
  /** Place of the last event on the axis. */
  readonly stop: number;
  /** Without a kind, or without module and op. */
  readonly unnamed_bytes_at_peak: number;
}

/** The peak of one step. */
export interface MemoryStep {
  readonly allocated_bytes: number;
  /** First event after which most was allocated. */
  readonly event: number;
  /** Iteration of the profile then; null: none, or unknown. */
  readonly iteration_index: number | null;
  /** From 0. */
  readonly step: number;
}

/** The shape of every list. */
export interface MergedKernelsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly MergedKernelsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface MergedKernelsRow {
  /** Mean duration of a launching call. */
  readonly api_time_avg_ns: number | null;
  /** Longest launching call. */
  readonly api_time_max_ns: number | null;
  /** Shortest launching call. */
  readonly api_time_min_ns: number | null;
  /** Sum of the durations of the launching calls. */
  readonly api_time_ns: number | null;
  /** Mean duration of a launch. */
  readonly gpu_time_avg_ns: number | null;
  /** Longest duration of a launch. */
  readonly gpu_time_max_ns: number | null;
  /** Shortest duration of a launch. */
  readonly gpu_time_min_ns: number | null;
  /** Sum of the durations of its launches. */
  readonly gpu_time_ns: number | null;
  /** Full name of the kernel. */
  readonly kernel_long_name: string | null;
  /** Short name of the kernel. */
  readonly kernel_name: string;
  /** Number of launches. */
  readonly num_calls: number | null;
  /** Number of ops that launched it. */
  readonly num_ops: number | null;
  /** Library, operation, types, tile and layout, from the full name. */
  readonly readable_name: string | null;
  /** Share of all kernels' time. */
  readonly share_pct: number | null;
  /** Ops that TorchInductor fused into the kernel, from its name. */
  readonly source_ops: string | null;
  /** Whether it used Tensor Cores. */
  readonly uses_tc: boolean | null;
}

/** The shape of every list. */
export interface MergedOpsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly MergedOpsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface MergedOpsRow {
  /** Time of the calls of all its ranks on the CPU. */
  readonly cpu_time_ns: number | null;
  /** Data types of the inputs. */
  readonly data_type: string | null;
  /** fprop, bprop or recompute; empty: work outside every op. */
  readonly direction: string;
  /** GPU time of all its ranks together. */
  readonly gpu_time_ns: number | null;
  /** GPU time on the slowest rank beyond the mean of the ranks. */
  readonly imbalance_pct: number | null;
  /** Number of kernel launches. */
  readonly kernel_calls: number | null;
  /** Executions on all its ranks, in the aggregated iterations. */
  readonly num_calls: number | null;
  /** Number of ranks that ran it. */
  readonly num_ranks: number | null;
  /** Name of the op on the slowest rank. */
  readonly op_id: string;
  /** Path of the op in the model, without the rank. */
  readonly op_name: string;
  /** Kind of op (conv2d). */
  readonly op_type: string;
  /** Ranks that ran it, separated by commas. */
  readonly ranks: string | null;
  /** Share of the GPU time of all ops. */
  readonly share_pct: number | null;
  /** GPU time on that rank. */
  readonly slowest_gpu_time_ns: number | null;
  /** Rank on which it took the most GPU time. */
  readonly slowest_rank: number | null;
  /** The program's own line in the stack: the innermost outside PyTorch and Python. */
  readonly source_line: string | null;
  /** Source lines that called the op, outermost first, one per line. */
  readonly stack_trace: string | null;
  /** Whether the op could use Tensor Cores. */
  readonly tc_eligible: boolean | null;
  /** Whether one of its kernels used Tensor Cores. */
  readonly using_tc: boolean | null;
}

/** The shape of every list. */
export interface NameEvidencePage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly NameEvidenceRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface NameEvidenceRow {
  /** GPU time of the kernels. */
  readonly gpu_time_ns: number | null;
  /** Share of the GPU time of all kernels. */
  readonly gpu_time_pct: number | null;
  /** Kernels. */
  readonly kernel_calls: number | null;
  /** How it is known to which op the GPU's work belongs. */
  readonly name_grade: string;
  /** What the evidence is, or why it is unknown. */
  readonly name_reason: string | null;
  /** Ops. */
  readonly num_ops: number | null;
}

/** An aggregation to add. */
export interface NewAggregation {
  /** First iteration, inclusive. */
  readonly iter_start?: number | null;
  /** Last iteration, inclusive. */
  readonly iter_stop?: number | null;
  /** Op ID, op name or range name; empty: chosen from the profile. */
  readonly key_node?: string | null;
  /** Only iterations of this phase, a name of phases/; empty or null: all. */
  readonly phase?: string | null;
}

/** A profile to add: exactly one of path, upload, paths and uploads. */
export interface NewProfile {
  /** How to read ranges. */
  readonly mode?: "auto" | "pytorch" | "tensorflow1" | "tensorflow2" | "tensorrt" | "jax" | "simple";
  /** Name of the profile; the name that it contains if left out. */
  readonly name?: string | null;
  /** A file in one of the folders that may be registered from; or a folder there, or a pattern (rank*.sqlite), which stands for the rank files of one job. */
  readonly path?: string | null;
  readonly paths?: readonly string[] | null;
  readonly ranks?: readonly number[] | null;
  /** The id of an upload, instead of a path. */
  readonly upload?: string | null;
  readonly uploads?: readonly string[] | null;
}

/** The shape of every list. */
export interface NumberedComparePage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly NumberedCompareRow[];
}

/** A row with its number in the comparison. */
export interface NumberedCompareRow {
  readonly base_kernels: readonly string[];
  /** Path and name on the base side, where it differs. */
  readonly base_name: string;
  /** Exact: a whole number, or a decimal as text. */
  readonly base_ns: number | string;
  readonly class: string;
  /** Exact: a whole number, or a decimal as text. */
  readonly difference_ns: number | string;
  readonly direction: string;
  /** 95 % interval. */
  readonly interval_ns: readonly number[] | null;
  readonly mann_whitney_p: number | null;
  /** same, aligned, module, only_base or only_new. */
  readonly match: string;
  readonly module: string;
  readonly new_kernels: readonly string[];
  /** Exact: a whole number, or a decimal as text. */
  readonly new_ns: number | string;
  readonly op: string;
  readonly op_type: string;
  /** Module and op, else reason or class, between slashes. */
  readonly path: string;
  readonly q_value: number | null;
  /** Why the GPU was idle, or empty. */
  readonly reason: string;
  /** 0: the largest difference. */
  readonly row: number;
  /** Rounded so that all rows of the comparison add up to the rounded step. */
  readonly shown_base_us: number;
  /** Rounded so that all rows of the comparison add up to the rounded step. */
  readonly shown_new_us: number;
  /** faster, slower, same or cannot tell. */
  readonly verdict: string;
  readonly within_pct: number | null;
}

/** The calls of an op in the aggregated iterations. */
export interface OpCalls {
  /** Histogram of the CPU time of a call. */
  readonly cpu_time_bins: readonly DurationBin[] | null;
  /** Histogram of the GPU time of a call. */
  readonly gpu_time_bins: readonly DurationBin[] | null;
  readonly iterations: readonly OpIteration[];
  /** Start of the call that took longest on CPU or GPU. */
  readonly longest_start_ns: number | null;
  /** How long it took. */
  readonly longest_time_ns: number | null;
  /** Number of different shapes. */
  readonly num_shapes: number | null;
  /** The shapes with the most GPU time. */
  readonly shapes: readonly CallShapes[] | null;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

/** The shape of every list. */
export interface OpEfficiencyPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly OpEfficiencyRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface OpEfficiencyRow {
  /** Operations per byte to move. */
  readonly arithmetic_intensity: number | null;
  /** Share of the peak bandwidth. */
  readonly bandwidth_peak_pct: number | null;
  /** What limits it: compute, memory or link. */
  readonly bound: string | null;
  /** Data to move. */
  readonly bytes: number | null;
  /** fprop, bprop or recompute; empty: work outside every op. */
  readonly direction: string | null;
  /** Floating point operations. */
  readonly flops: number | null;
  /** Share of the peak rate of operations. */
  readonly flops_peak_pct: number | null;
  /** Bytes to move per GPU time. */
  readonly gbytes_per_second: number | null;
  /** Time in which its GPU work ran. */
  readonly gpu_time_ns: number | null;
  /** Per call the longer of: operations at the peak rate, bytes at the peak bandwidth. */
  readonly ideal_time_ns: number | null;
  /** Share of the GPU time with known costs. */
  readonly known_pct: number | null;
  /** GPU time beyond the ideal time. */
  readonly left_time_ns: number | null;
  /** Operations of matrix products. */
  readonly matrix_flops: number | null;
  /** Executions with work on a GPU. */
  readonly num_calls: number | null;
  /** Name of the op node, unique in the aggregation (CONV2D_1); what key_node accepts. */
  readonly op_id: string;
  /** Path of the op in the model. */
  readonly op_name: string | null;
  /** Kind of op (conv2d). */
  readonly op_type: string | null;
  /** Ideal time over GPU time: 100 % is the roofline. */
  readonly peak_pct: number | null;
  /** Why it is above 100 % of the peak. */
  readonly peak_reason: string | null;
  /** Precision of its matrix products. */
  readonly precision: string | null;
  /** The program's own line in the stack: the innermost outside PyTorch and Python. */
  readonly source_line: string | null;
  /** Source lines that called the op, outermost first, one per line. */
  readonly stack_trace: string | null;
  /** Operations per GPU time. */
  readonly tflops_per_second: number | null;
  /** Why something is unknown. */
  readonly unknown_reason: string | null;
}

/** The calls of an op in an iteration. */
export interface OpIteration {
  /** Their time on the CPU. */
  readonly cpu_time_ns: number | null;
  /** Time in which the GPU worked for these calls. */
  readonly gpu_time_ns: number;
  readonly iteration_index: number;
  /** Calls that started in it. */
  readonly num_calls: number | null;
}

/** The shape of every list. */
export interface OpKernelsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly OpKernelsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface OpKernelsRow {
  /** Mean duration of a launching call. */
  readonly api_time_avg_ns: number | null;
  /** Longest launching call. */
  readonly api_time_max_ns: number | null;
  /** Shortest launching call. */
  readonly api_time_min_ns: number | null;
  /** Sum of the durations of the launching calls. */
  readonly api_time_ns: number | null;
  /** Mean duration of a launch. */
  readonly gpu_time_avg_ns: number | null;
  /** Longest duration of a launch. */
  readonly gpu_time_max_ns: number | null;
  /** Shortest duration of a launch. */
  readonly gpu_time_min_ns: number | null;
  /** Sum of the durations of its launches. */
  readonly gpu_time_ns: number | null;
  /** Full name of the kernel. */
  readonly kernel_long_name: string | null;
  /** Short name of the kernel. */
  readonly kernel_name: string;
  /** Number of launches. */
  readonly num_calls: number | null;
  /** Library, operation, types, tile and layout, from the full name. */
  readonly readable_name: string | null;
  /** Share of the op's kernel time. */
  readonly share_pct: number | null;
  /** Whether it used Tensor Cores. */
  readonly uses_tc: boolean | null;
}

export interface OpRow {
  /** Operations per byte to move. */
  readonly arithmetic_intensity: number | null;
  /** What limits it: compute, memory or link. */
  readonly bound: string | null;
  /** CPU time outside CUDA calls; mean of a call. */
  readonly cpu_overhead_avg_ns: number | null;
  /** CPU time outside CUDA calls; most of a call. */
  readonly cpu_overhead_max_ns: number | null;
  /** CPU time outside CUDA calls; least of a call. */
  readonly cpu_overhead_min_ns: number | null;
  /** CPU time outside CUDA calls; sum. */
  readonly cpu_overhead_ns: number | null;
  /** Time of the calls on the CPU, including what they called; mean of a call. */
  readonly cpu_time_avg_ns: number | null;
  /** Time of the calls on the CPU, including what they called; most of a call. */
  readonly cpu_time_max_ns: number | null;
  /** Time of the calls on the CPU, including what they called; least of a call. */
  readonly cpu_time_min_ns: number | null;
  /** Time that the calls of the op took on the CPU. */
  readonly cpu_time_ns: number | null;
  /** Data types of the inputs. */
  readonly data_type: string | null;
  /** fprop, bprop or recompute; empty: work outside every op. */
  readonly direction: string | null;
  /** Bytes to move per GPU time. */
  readonly gbytes_per_second: number | null;
  /** Gaps between the GPU work of a call; mean of a call. */
  readonly gpu_idle_avg_ns: number | null;
  /** Gaps between the GPU work of a call; most of a call. */
  readonly gpu_idle_max_ns: number | null;
  /** Gaps between the GPU work of a call; least of a call. */
  readonly gpu_idle_min_ns: number | null;
  /** Gaps between the GPU work of a call; sum. */
  readonly gpu_idle_ns: number | null;
  /** Time in which the GPU worked for the op; mean of a call. */
  readonly gpu_time_avg_ns: number | null;
  /** Time in which the GPU worked for the op; most of a call. */
  readonly gpu_time_max_ns: number | null;
  /** Time in which the GPU worked for the op; least of a call. */
  readonly gpu_time_min_ns: number | null;
  /** Time in which the GPU worked for the op, summed over its calls; overlap counts once. */
  readonly gpu_time_ns: number | null;
  /** Per call the longer of: operations at the peak rate, bytes at the peak bandwidth. */
  readonly ideal_time_ns: number | null;
  /** Could use Tensor Cores, but runs in a data type that has none. */
  readonly is_bad_data_type: boolean | null;
  /** Number of kernel launches. */
  readonly kernel_calls: number | null;
  /** GPU time beyond the ideal time. */
  readonly left_time_ns: number | null;
  /** How it is known that the GPU's work belongs to the op: recorded, provenance (by the compiler), capture (of a CUDA graph) or unknown. */
  readonly name_grade: string | null;
  /** What the evidence is, or why the op is unknown. */
  readonly name_reason: string | null;
  /** Executions in the aggregated iterations. */
  readonly num_calls: number | null;
  /** Name of the op node, unique in the aggregation (CONV2D_1); what key_node accepts. */
  readonly op_id: string;
  /** Path of the op in the model. */
  readonly op_name: string | null;
  /** Kind of op (conv2d). */
  readonly op_type: string | null;
  /** Share of the critical path of the steps that its work on the GPU fills. */
  readonly path_pct: number | null;
  /** GPU memory that it allocated and that is held at the peak. */
  readonly peak_bytes: number | null;
  /** Ideal time over GPU time: 100 % is the roofline. */
  readonly peak_pct: number | null;
  /** Rank that ran it. */
  readonly rank: number | null;
  /** Share of the GPU time of all ops. */
  readonly share_pct: number | null;
  /** Modules that a kernel of compiled code computes for, if they are several; empty: one. */
  readonly shared_modules: string | null;
  /** How much later its work may end without delaying a step. */
  readonly slack_ns: number | null;
  /** The program's own line in the stack: the innermost outside PyTorch and Python. */
  readonly source_line: string | null;
  /** Source lines that called the op, outermost first, one per line. */
  readonly stack_trace: string | null;
  /** Whether the op could use Tensor Cores. */
  readonly tc_eligible: boolean | null;
  /** Operations per GPU time. */
  readonly tflops_per_second: number | null;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
  /** Whether one of its kernels used Tensor Cores. */
  readonly using_tc: boolean | null;
}

/** What ops that take less time change. */
export interface OpSensitivities {
  /** high, medium or low. */
  readonly confidence: string;
  readonly error_pct: ErrorPct;
  /** Whether it is without the costs of profiling. */
  readonly is_corrected: boolean;
  /** The iterations that were replayed. */
  readonly iterations: readonly number[];
  /** Median of the measured steps. */
  readonly measured_step_ns: number;
  /** What lowers the confidence. */
  readonly notes: readonly string[];
  /** Those with most time on the path first. */
  readonly ops: readonly OpSensitivity[];
  /** Median of the replayed steps. */
  readonly replayed_step_ns: number;
  /** Share of the step that is unexplained idle time. */
  readonly unexplained_pct: number;
}

/** What an op that takes less time changes. */
export interface OpSensitivity {
  readonly direction: string;
  readonly op_id: string;
  readonly op_name: string;
  readonly op_type: string;
  /** Mean time of its work on the GPU in a step. */
  readonly own_ns: number;
  /** Of it on the critical path. */
  readonly path_ns: number;
  /** The same as a share of the median step. */
  readonly path_pct: number;
  /** How much later its work may end for free; null: at any time. */
  readonly slack_ns: number | null;
  /** Time that a step gains when the op gains 1 ns. */
  readonly step_ns_per_own_ns: number;
}

export interface OpSummary {
  readonly all: OpSummaryAll;
  readonly eligible_not_using: OpSummaryEligibleNotUsing;
  readonly other: OpSummaryOther;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
  readonly using_tc: OpSummaryUsingTc;
}

export interface OpSummaryAll {
  /** How many there are. */
  readonly count: number | null;
  /** CPU time, summed. */
  readonly cpu_time_ns: number | null;
  /** GPU time, summed. */
  readonly gpu_time_ns: number | null;
}

export interface OpSummaryEligibleNotUsing {
  /** How many there are. */
  readonly count: number | null;
  /** CPU time, summed. */
  readonly cpu_time_ns: number | null;
  /** GPU time, summed. */
  readonly gpu_time_ns: number | null;
}

export interface OpSummaryOther {
  /** How many there are. */
  readonly count: number | null;
  /** CPU time, summed. */
  readonly cpu_time_ns: number | null;
  /** GPU time, summed. */
  readonly gpu_time_ns: number | null;
}

export interface OpSummaryUsingTc {
  /** How many there are. */
  readonly count: number | null;
  /** CPU time, summed. */
  readonly cpu_time_ns: number | null;
  /** GPU time, summed. */
  readonly gpu_time_ns: number | null;
}

/** The shape of every list. */
export interface OpTypeEfficiencyPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly OpTypeEfficiencyRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface OpTypeEfficiencyRow {
  /** Operations per byte to move. */
  readonly arithmetic_intensity: number | null;
  /** What limits it: compute, memory or link. */
  readonly bound: string | null;
  /** Data to move. */
  readonly bytes: number | null;
  /** Floating point operations. */
  readonly flops: number | null;
  /** Bytes to move per GPU time. */
  readonly gbytes_per_second: number | null;
  /** Time in which its GPU work ran. */
  readonly gpu_time_ns: number | null;
  /** Per call the longer of: operations at the peak rate, bytes at the peak bandwidth. */
  readonly ideal_time_ns: number | null;
  /** Share of the GPU time with known costs. */
  readonly known_pct: number | null;
  /** GPU time beyond the ideal time. */
  readonly left_time_ns: number | null;
  /** Operations of matrix products. */
  readonly matrix_flops: number | null;
  /** Executions with work on a GPU. */
  readonly num_calls: number | null;
  /** Number of different ops of this type. */
  readonly num_ops: number | null;
  /** Kind of op (conv2d). */
  readonly op_type: string;
  /** Ideal time over GPU time: 100 % is the roofline. */
  readonly peak_pct: number | null;
  /** Operations per GPU time. */
  readonly tflops_per_second: number | null;
}

/** The shape of every list. */
export interface OpTypesPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly OpTypesRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface OpTypesRow {
  /** CPU time outside CUDA calls; mean of a call. */
  readonly cpu_overhead_avg_ns: number | null;
  /** CPU time outside CUDA calls; most of a call. */
  readonly cpu_overhead_max_ns: number | null;
  /** CPU time outside CUDA calls; least of a call. */
  readonly cpu_overhead_min_ns: number | null;
  /** CPU time outside CUDA calls; sum. */
  readonly cpu_overhead_ns: number | null;
  /** Time of the calls on the CPU, including what they called; mean of a call. */
  readonly cpu_time_avg_ns: number | null;
  /** Time of the calls on the CPU, including what they called; most of a call. */
  readonly cpu_time_max_ns: number | null;
  /** Time of the calls on the CPU, including what they called; least of a call. */
  readonly cpu_time_min_ns: number | null;
  /** Time of the calls on the CPU, including what they called; sum. */
  readonly cpu_time_ns: number | null;
  /** Gaps between the GPU work of a call; mean of a call. */
  readonly gpu_idle_avg_ns: number | null;
  /** Gaps between the GPU work of a call; most of a call. */
  readonly gpu_idle_max_ns: number | null;
  /** Gaps between the GPU work of a call; least of a call. */
  readonly gpu_idle_min_ns: number | null;
  /** Gaps between the GPU work of a call; sum. */
  readonly gpu_idle_ns: number | null;
  /** Time in which the GPU worked for the op; mean of a call. */
  readonly gpu_time_avg_ns: number | null;
  /** Time in which the GPU worked for the op; most of a call. */
  readonly gpu_time_max_ns: number | null;
  /** Time in which the GPU worked for the op; least of a call. */
  readonly gpu_time_min_ns: number | null;
  /** Time in which the GPU worked for the op; sum. */
  readonly gpu_time_ns: number | null;
  /** Executions in the aggregated iterations. */
  readonly num_calls: number | null;
  /** Number of different ops of this type. */
  readonly num_ops: number | null;
  /** Kind of op (conv2d). */
  readonly op_type: string;
}

/** The shape of every list. */
export interface OpUnitsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly OpUnitsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface OpUnitsRow {
  /** Data to move. */
  readonly bytes_per_call: number | null;
  /** Operations. */
  readonly flops_per_call: number | null;
  /** Sizes of the arguments; empty: not recorded. */
  readonly input_shapes: string | null;
  /** Calls in the aggregated iterations. */
  readonly num_calls: number | null;
  /** Sizes of the output, where found elsewhere. */
  readonly output_shape: string | null;
  /** Precision that limits it; empty: unknown. */
  readonly precision: string | null;
  /** Number of the unit in the database. */
  readonly unit_id: number;
  /** Operator, or kind of copy. */
  readonly unit_name: string | null;
  /** Why something is unknown. */
  readonly unknown_reason: string | null;
}

/** The shape of every list. */
export interface OpsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly OpsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface OpsRow {
  /** Operations per byte to move. */
  readonly arithmetic_intensity: number | null;
  /** What limits it: compute, memory or link. */
  readonly bound: string | null;
  /** Time that the calls of the op took on the CPU. */
  readonly cpu_time_ns: number | null;
  /** Data types of the inputs. */
  readonly data_type: string | null;
  /** fprop, bprop or recompute; empty: work outside every op. */
  readonly direction: string | null;
  /** Bytes to move per GPU time. */
  readonly gbytes_per_second: number | null;
  /** Time in which the GPU worked for the op, summed over its calls; overlap counts once. */
  readonly gpu_time_ns: number | null;
  /** Per call the longer of: operations at the peak rate, bytes at the peak bandwidth. */
  readonly ideal_time_ns: number | null;
  /** Could use Tensor Cores, but runs in a data type that has none. */
  readonly is_bad_data_type: boolean | null;
  /** Number of kernel launches. */
  readonly kernel_calls: number | null;
  /** GPU time beyond the ideal time. */
  readonly left_time_ns: number | null;
  /** How it is known that the GPU's work belongs to the op: recorded, provenance (by the compiler), capture (of a CUDA graph) or unknown. */
  readonly name_grade: string | null;
  /** What the evidence is, or why the op is unknown. */
  readonly name_reason: string | null;
  /** Executions in the aggregated iterations. */
  readonly num_calls: number | null;
  /** Name of the op node, unique in the aggregation (CONV2D_1); what key_node accepts. */
  readonly op_id: string;
  /** Path of the op in the model. */
  readonly op_name: string | null;
  /** Kind of op (conv2d). */
  readonly op_type: string | null;
  /** Share of the critical path of the steps that its work on the GPU fills. */
  readonly path_pct: number | null;
  /** GPU memory that it allocated and that is held at the peak. */
  readonly peak_bytes: number | null;
  /** Ideal time over GPU time: 100 % is the roofline. */
  readonly peak_pct: number | null;
  /** Rank that ran it. */
  readonly rank: number | null;
  /** Share of the GPU time of all ops. */
  readonly share_pct: number | null;
  /** Modules that a kernel of compiled code computes for, if they are several; empty: one. */
  readonly shared_modules: string | null;
  /** How much later its work may end without delaying a step. */
  readonly slack_ns: number | null;
  /** The program's own line in the stack: the innermost outside PyTorch and Python. */
  readonly source_line: string | null;
  /** Source lines that called the op, outermost first, one per line. */
  readonly stack_trace: string | null;
  /** Whether the op could use Tensor Cores. */
  readonly tc_eligible: boolean | null;
  /** Operations per GPU time. */
  readonly tflops_per_second: number | null;
  /** Whether one of its kernels used Tensor Cores. */
  readonly using_tc: boolean | null;
}

/** The shape of every list. */
export interface OwnerSumsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly OwnerSumsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface OwnerSumsRow {
  /** Name of the class or type, path of the module with all that is in it; empty: no op. */
  readonly owner_name: string;
  /** class, op type or module. */
  readonly rolled_up_by: string;
  /** Share of the iterations; all owners add up to 100 %. */
  readonly share_pct: number | null;
  /** Mean per iteration and GPU. */
  readonly step_time_ns: number | null;
  /** Time in all iterations and on all GPUs that ran work. */
  readonly time_ns: number | null;
}

/** The shape of every list. */
export interface OwnersPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly OwnersRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface OwnersRow {
  /** fprop, bprop or recompute; empty: no op, or work outside every op. */
  readonly direction: string | null;
  /** Module of the op, or the range around what was no op; ends with a slash. */
  readonly module: string | null;
  /** Op that owns the time; null: no op. */
  readonly op_id: string | null;
  /** Path of the op in the model; null: no op. */
  readonly op_name: string | null;
  /** Kind of op; empty: no op. */
  readonly op_type: string | null;
  /** Number of the owner, from 0. */
  readonly owner: number;
  /** What the GPU did or waited for (other compute, waiting for the host). */
  readonly owner_class: string | null;
  /** Why the GPU was idle; empty: it was busy, or the class says why. */
  readonly reason: string | null;
  /** Share of the iterations; all owners add up to 100 %. */
  readonly share_pct: number | null;
  /** Mean per iteration and GPU. */
  readonly step_time_ns: number | null;
  /** Time in all iterations and on all GPUs that ran work. */
  readonly time_ns: number | null;
}

/** Time on the critical path of one kind and owner. */
export interface PathShare {
  /** kernel, copy, call, cpu, loader, launch, gap, and so on. */
  readonly kind: string;
  /** Mean time in a step. */
  readonly ns: number;
  readonly op_name: string | null;
  /** Op ID, or name of a call; empty: neither. */
  readonly owner: string;
  /** Of the step. */
  readonly share_pct: number;
}

/** The shape of every list. */
export interface PeakRatesPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly PeakRatesRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface PeakRatesRow {
  /** GPU that has these rates; empty: not in the built-in table. */
  readonly gpu_name: string | null;
  /** 1: set by the user. */
  readonly is_given: number | null;
  /** TFLOP/s (TOP/s), or GB/s; null: unknown. */
  readonly rate: number | null;
  /** Precision, bandwidth, or link to the host. */
  readonly rate_name: string;
}

export interface PerformanceSummary {
  /** Median time of a step without profiling. */
  readonly bare_step_ns: number | null;
  /** 10th percentile of these steps' times. */
  readonly bare_step_p10_ns: number | null;
  /** 90th percentile of these steps' times. */
  readonly bare_step_p90_ns: number | null;
  /** Why the bare step is unknown. */
  readonly bare_step_reason: string | null;
  /** Steps that were timed without profiling. */
  readonly bare_steps: number | null;
  /** Share of the corrected step in which the GPU runs anything. */
  readonly corrected_busy_pct: number | null;
  /** Mean idle time of the GPU in that step. */
  readonly corrected_idle_ns: number | null;
  /** What the corrected step waits for most: gpu, cpu, loader or communication. */
  readonly corrected_limit: string | null;
  /** Median step of a replay without the costs of profiling. */
  readonly corrected_step_ns: number | null;
  /** 10th percentile of these steps. */
  readonly corrected_step_p10_ns: number | null;
  /** 90th percentile of these steps. */
  readonly corrected_step_p90_ns: number | null;
  /** Time by which the steps without profiling were still shorter. */
  readonly corrected_unexplained_ns: number | null;
  /** Time with a kernel running, mean over the GPUs. */
  readonly gpu_utilization_pct: number | null;
  /** 1: it covers the steady range. */
  readonly is_steady: number | null;
  /** Mean length of an iteration. */
  readonly iter_avg_ns: number | null;
  /** Median time of a step. */
  readonly iter_median_ns: number | null;
  /** 10th percentile of the steps' times. */
  readonly iter_p10_ns: number | null;
  /** 90th percentile of the steps' times. */
  readonly iter_p90_ns: number | null;
  /** First aggregated iteration. */
  readonly iter_start: number | null;
  /** Standard deviation of an iteration's length. */
  readonly iter_std_dev_ns: number | null;
  /** Last aggregated iteration, inclusive. */
  readonly iter_stop: number | null;
  /** Op that marks an iteration. */
  readonly key_node: string | null;
  /** Why that op. */
  readonly key_node_reason: string | null;
  /** How much longer a profiled step takes. */
  readonly overhead_pct: number | null;
  /** Aggregated. */
  readonly profiled_iterations: number | null;
  /** Median time of a step while it is profiled, by the same clock. */
  readonly profiled_step_ns: number | null;
  /** Steps that this clock timed while they were profiled. */
  readonly profiled_steps: number | null;
  /** Mean time of the CPU that was taken out of a step. */
  readonly profiling_cost_ns: number | null;
  /** Median of the same steps as measured. */
  readonly replayed_step_ns: number | null;
  /** What the steady range leaves out, or why there is none. */
  readonly steady_note: string | null;
  /** Iterations without the one before the loop. */
  readonly steps: number | null;
  /** Share of Tensor Core kernels in the kernel time of eligible ops. */
  readonly tc_utilization_pct: number | null;
  /** Found in the profile. */
  readonly total_iterations: number | null;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
  /** Share that waits for communication between GPUs. */
  readonly waits_for_communication_pct: number | null;
  /** Share that waits for work of the CPU. */
  readonly waits_for_cpu_pct: number | null;
  /** Share that waits for work of the GPU. */
  readonly waits_for_gpu_pct: number | null;
  /** Share that waits for input. */
  readonly waits_for_loader_pct: number | null;
  /** Sum of the iterations. */
  readonly wall_clock_time_ns: number | null;
}

/** The shape of every list. */
export interface PhasesPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly PhasesRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface PhasesRow {
  /** Share of the memory bandwidth that the known data of the ops takes: a lower bound. */
  readonly bandwidth_pct: number | null;
  /** Step of this phase that ran without profiling, median. */
  readonly bare_step_ns: number | null;
  /** Tokens of an iteration by the median step without profiling. */
  readonly bare_tokens_per_second: number | null;
  /** Time of these iterations. */
  readonly duration_ns: number | null;
  /** Share of the time in which the GPU ran kernels or CUDA graphs. */
  readonly gpu_busy_pct: number | null;
  /** Aggregated iterations of the phase. */
  readonly iterations: number | null;
  /** GPU time of ops with known data or operations. */
  readonly known_pct: number | null;
  /** Model FLOPs utilization, at least. */
  readonly mfu_at_least_pct: number | null;
  /** Ranges of the phase in an iteration, mean. */
  readonly micro_steps: number | null;
  /** Prefill, decode, train, or another name that the program gave. */
  readonly phase: string;
  /** Sequences in a batch, mean. */
  readonly sequences: number | null;
  /** Share of that time in which a Tensor Core kernel ran. */
  readonly tc_time_pct: number | null;
  /** Decoding: time from one token of a sequence to the next. */
  readonly token_interval_ns: number | null;
  /** Tokens computed: prompt tokens of a prefill, new ones of decoding. */
  readonly tokens: number | null;
  /** Tokens per second. */
  readonly tokens_per_second: number | null;
}

/** A profile with everything that no aggregation changes. */
export interface Profile {
  /** Number of aggregations in it. */
  readonly aggregation_count: number | null;
  readonly can_reaggregate: boolean;
  /** Empty if aggregations can be added. */
  readonly cannot_reaggregate_reason: string;
  readonly conversion_ids: readonly string[];
  /** File of NVIDIA's that it was converted from. */
  readonly converted_from: string | null;
  /** When the database was written. */
  readonly created_at: string | null;
  /** Version of the DLProf that wrote it. */
  readonly db_version: string | null;
  readonly domains: readonly string[];
  /** Name of the file, without its folder. */
  readonly file_name: string;
  /** Framework and its version. */
  readonly framework: string | null;
  /** Number of GPUs. */
  readonly gpu_count: number | null;
  /** Names of the GPUs. */
  readonly gpu_name: string | null;
  /** Part of the profile's address. */
  readonly id: string;
  readonly info: Readonly<Record<string, string | null>>;
  /** Written by NVIDIA's DLProf. */
  readonly is_foreign: boolean | null;
  /** Stored by the viewer: deleting the profile deletes it. */
  readonly is_stored: boolean;
  /** Iterations of the whole profile, in its first aggregation. */
  readonly iteration_count: number | null;
  /** How its ranges were read. */
  readonly mode: string | null;
  /** Name of the profile, else the name of its file. */
  readonly name: string;
  /** Where the file is on the server. */
  readonly path: string;
  readonly system_config: SystemConfig;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
  readonly warnings: readonly ProfileWarning[];
}

/** A change of a profile. */
export interface ProfileChange {
  /** New name; empty: the name that the profile contains. */
  readonly name: string;
}

/** A profile in the list of profiles. */
export interface ProfileItem {
  /** Number of aggregations in it. */
  readonly aggregation_count: number | null;
  /** When the database was written. */
  readonly created_at: string | null;
  /** Version of the DLProf that wrote it. */
  readonly db_version: string | null;
  /** Why the file cannot be opened. */
  readonly error: Error | null;
  /** Name of the file, without its folder. */
  readonly file_name: string;
  /** Framework and its version. */
  readonly framework: string | null;
  /** Number of GPUs. */
  readonly gpu_count: number | null;
  /** Names of the GPUs. */
  readonly gpu_name: string | null;
  /** Part of the profile's address. */
  readonly id: string;
  /** Written by NVIDIA's DLProf. */
  readonly is_foreign: boolean | null;
  /** Stored by the viewer: deleting the profile deletes it. */
  readonly is_stored: boolean;
  /** Iterations of the whole profile, in its first aggregation. */
  readonly iteration_count: number | null;
  /** How its ranges were read. */
  readonly mode: string | null;
  /** Name of the profile, else the name of its file. */
  readonly name: string;
  /** Where the file is on the server. */
  readonly path: string;
}

/** The shape of every list. */
export interface ProfileItemPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly ProfileItem[];
}

/** Something that the import of a profile could not read or had to assume. */
export interface ProfileWarning {
  readonly code: string;
  readonly count: number;
  readonly message: string;
}

/** Work of one kind in a range of time. */
export interface RangeCategory {
  /** As in the items of a timeline. */
  readonly category: number;
  readonly num_events: number;
  /** Sum of their durations within the range. */
  readonly time_ns: number;
}

/** An event of a timeline. */
export interface RangeEvent {
  readonly duration_ns: number;
  readonly lane: string;
  readonly name: string;
  readonly op_id: string | null;
  /** Row of the event in its table; 0: it has none. */
  readonly row_id: number;
  readonly start_ns: number;
}

/** Iterations in a range of time. */
export interface RangeIterations {
  readonly first: number;
  readonly last: number;
}

/** Work of one op in a range of time. */
export interface RangeOp {
  readonly num_events: number;
  readonly op_id: string;
  /** Sum of their durations within the range. */
  readonly time_ns: number;
}

/** A rank file of an import that joins several. */
export interface RankFile {
  readonly file_name: string;
  /** Number that the request gave it; null: taken from the file. */
  readonly rank: number | null;
  readonly state: "waiting" | "importing" | "done" | "failed";
}

/** The shape of every list. */
export interface RankIterationsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly RankIterationsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface RankIterationsRow {
  /** Collectives that it took part in. */
  readonly collective_count: number | null;
  /** Iteration that launched the collectives. */
  readonly iteration_index: number;
  /** Time that the other ranks together waited for this one. */
  readonly kept_waiting_ns: number | null;
  /** Number of the rank. */
  readonly rank: number;
  /** Time that it waited in them. */
  readonly waiting_ns: number | null;
}

/** A step of all ranks. */
export interface RankStep {
  readonly iteration_index: number;
  /** Of each rank, in the order of ranks. */
  readonly late_ns: readonly number[];
  readonly step_ns: number;
}

/** The shape of every list. */
export interface RanksPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly RanksRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface RanksRow {
  /** How its clock was aligned with the other ranks. */
  readonly aligned_by: string | null;
  /** Offset added to its times; null: unknown. */
  readonly clock_offset_ns: number | null;
  /** Median distance of its ends of collectives from those of the first rank. */
  readonly clock_residual_ns: number | null;
  /** Collectives that it took part in. */
  readonly collective_count: number | null;
  /** Time in which kernels ran that move data between GPUs. */
  readonly communication_ns: number | null;
  /** Time in which kernels ran that do not move data between GPUs. */
  readonly computing_ns: number | null;
  /** GPU that it used most. */
  readonly device_id: number | null;
  /** Time in which data moved between GPUs while no kernel computed. */
  readonly exposed_communication_ns: number | null;
  /** Share of the aggregated time in which a kernel ran on the GPU. */
  readonly gpu_utilization_pct: number | null;
  /** Number of the GPU on its machine. */
  readonly host_device_id: number | null;
  /** Machine that it ran on; empty: unknown. */
  readonly host_name: string | null;
  /** Its computing time compared with the mean of all ranks. */
  readonly imbalance_pct: number | null;
  /** Time that the other ranks together waited for this one. */
  readonly kept_waiting_ns: number | null;
  /** Number of kernel launches. */
  readonly kernel_count: number | null;
  /** Process ID on its machine. */
  readonly process_id: number | null;
  /** Number of the rank; the link leads to its ops. */
  readonly rank: number;
  /** File that it was read from. */
  readonly source_file: string | null;
  /** Collectives in which the other ranks waited for this one. */
  readonly times_last: number | null;
  /** Collectives that were found on no other rank. */
  readonly unmatched_count: number | null;
  /** Time in collectives before the last rank arrived; null: unknown. */
  readonly waiting_ns: number | null;
  /** Waiting as a share of the aggregated time. */
  readonly waiting_pct: number | null;
}

/** A finding of one of DLProf's detectors. */
export interface Recommendation {
  /** Name of the detector. */
  readonly detector: string | null;
  /** View that shows the details. */
  readonly drill_down: string | null;
  readonly drill_down_args: string | null;
  readonly id: number;
  readonly problem: string;
  readonly recommendation: string;
}

/** All findings of an aggregation. */
export interface Recommendations {
  readonly count: number;
  readonly results: readonly Recommendation[];
}

/** An event that another one belongs to. */
export interface RelatedEvent {
  /** As in the items of a timeline. */
  readonly category: number;
  readonly duration_ns: number;
  readonly lane: string;
  readonly name: string;
  readonly op_id: string | null;
  readonly op_type: string;
  /** launched by, launched, op (in which it was launched), forward or backward (the same call of the op in the other direction). */
  readonly relation: string;
  /** Row of the event in its table; 0: it has none. */
  readonly row_id: number;
  readonly start_ns: number;
}

/** The result of removing a profile. */
export interface RemovedProfile {
  readonly deleted_files: readonly string[];
  readonly id: string;
  /** The profile was removed from the list, its file kept. */
  readonly is_unlisted: boolean;
}

export interface ResourceUsage {
  /** Only kernels that move data between GPUs run; part of non_tc_pct. */
  readonly communication_pct: number | null;
  /** The same of the corrected step: communication. */
  readonly corrected_communication_pct: number | null;
  /** The same of the corrected step: cpu. */
  readonly corrected_cpu_pct: number | null;
  /** The same of the corrected step: dataloader. */
  readonly corrected_dataloader_pct: number | null;
  /** The same of the corrected step: graph. */
  readonly corrected_graph_pct: number | null;
  /** The same of the corrected step: io. */
  readonly corrected_io_pct: number | null;
  /** The same of the corrected step: memory. */
  readonly corrected_memory_pct: number | null;
  /** The same of the corrected step: non_tc. */
  readonly corrected_non_tc_pct: number | null;
  /** The same of the corrected step: other. */
  readonly corrected_other_pct: number | null;
  /** The same of the corrected step: tc. */
  readonly corrected_tc_pct: number | null;
  /** Only ops on the CPU run. */
  readonly cpu_pct: number | null;
  /** Only input is waited for. */
  readonly dataloader_pct: number | null;
  /** Only CUDA graphs run whose kernels were not recorded. */
  readonly graph_pct: number | null;
  /** Only I/O happens. */
  readonly io_pct: number | null;
  /** Only copies and sets run. */
  readonly memory_pct: number | null;
  /** Other kernels run. */
  readonly non_tc_pct: number | null;
  /** None of these. */
  readonly other_pct: number | null;
  /** A Tensor Core kernel runs. */
  readonly tc_pct: number | null;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

/** A row's time in every iteration, one list per capture. */
export interface RowSamples {
  readonly base_ns: readonly (readonly number[])[];
  readonly new_ns: readonly (readonly number[])[];
}

/** What the rows of a counter's items mean: values, of joined samples the largest. */
export interface Scale {
  /** Largest row. */
  readonly most: number;
  /** A row is so many units; percent in hundredths. */
  readonly step: number;
  /** bytes or percent. */
  readonly unit: string;
}

/** Which rank makes the step slow. */
export interface Stragglers {
  /** high, medium or low. */
  readonly confidence: string;
  readonly error_pct: ErrorPct;
  /** Mean step with all ranks at the median. */
  readonly ideal_step_ns: number;
  readonly iterations: readonly RankStep[];
  /** Mean replayed step. */
  readonly mean_step_ns: number;
  /** What lowers the confidence. */
  readonly notes: readonly string[];
  readonly ranks: readonly ComparedRank[];
  /** Iterations in which it is late; empty: in most or all. */
  readonly slow_iterations: readonly number[];
  /** Null: none. */
  readonly slow_rank: number | null;
  /** The mean step over the ideal one. */
  readonly slowdown: number;
  /** Measured step: the median, or the mean if there are slow_iterations. */
  readonly step_ns: number;
  readonly verdict: string;
}

/** The system that a profile was recorded on. */
export interface SystemConfig {
  readonly cpu_model: string | null;
  readonly cuda_version: string | null;
  readonly cudnn_version: string | null;
  readonly dlprof_db_version: string | null;
  readonly dlprof_version: string | null;
  readonly driver_version: string | null;
  readonly framework: string | null;
  readonly gpu_count: number | null;
  readonly gpu_names: readonly string[];
  readonly nsys_version: string | null;
  readonly original_command: string | null;
  readonly profile_name: string | null;
  readonly viewer_version: string | null;
}

export interface TensorCoreEfficiency {
  /** Share of their other kernels. */
  readonly not_using_tc_pct: number | null;
  /** Share of Tensor Core kernels in the kernel time of eligible ops. */
  readonly tc_utilization_pct: number | null;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
  /** Share of Tensor Core kernels in the kernel time of eligible ops. */
  readonly using_tc_pct: number | null;
}

/** The lanes of an aggregation's timeline. */
export interface Timeline {
  readonly labels: TimelineLabels;
  readonly lanes: readonly Lane[];
  readonly names: readonly string[];
  /** First event. */
  readonly start_ns: number | null;
  /** End of the last event. */
  readonly stop_ns: number | null;
  /** Bins of a tile. */
  readonly tile_bins: number;
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
  /** Changes with the profile; tiles are asked for with it. */
  readonly version: string;
}

/** One event; what is not known, or is not of its kind, is left out or null. */
export interface TimelineEvent {
  /** Start of the launching call. Unit: ns. */
  readonly api_start_ns?: number;
  /** Its duration; 0: not recorded. */
  readonly api_time_ns?: number;
  readonly block?: string;
  /** Moved or set. */
  readonly bytes?: number | null;
  /** As in the items of a timeline. */
  readonly category: number;
  readonly correlation_id?: number;
  /** Of this execution of the op. */
  readonly cpu_time_ns?: number;
  /** Element type; empty: not recorded. */
  readonly data_type?: string;
  readonly direction?: string;
  readonly duration_ns: number;
  /** Of this execution of the op. */
  readonly gpu_time_ns?: number;
  readonly grid?: string;
  /** pageable, pinned or empty. */
  readonly host_memory?: string;
  readonly input_shapes?: string | null;
  readonly lane: string;
  /** Full name of the kernel. */
  readonly long_name?: string;
  /** Path of the op without its last part. */
  readonly module?: string;
  readonly name: string;
  /** How it is known that it is of the op. */
  readonly name_reason?: string;
  /** Number of ops. */
  readonly of_ops?: number;
  readonly op_id: string | null;
  readonly op_name?: string;
  readonly op_type: string;
  readonly output_shapes?: string | null;
  /** Of the op by GPU time, from 1. */
  readonly place?: number;
  readonly readable_name?: string;
  readonly related: readonly RelatedEvent[];
  /** Row of the event in its table; 0: it has none. */
  readonly row_id: number;
  /** Of the GPU time of all ops. */
  readonly share_pct?: number | null;
  /** Ops that TorchInductor fused into it. */
  readonly source_ops?: string;
  readonly start_ns: number;
  /** Whether the op can use Tensor Cores. */
  readonly tc_eligible?: boolean;
  /** What in the name of the kernel says so. */
  readonly tc_evidence?: string;
  /** Why. */
  readonly tc_fit_reason?: string;
  /** Of a sample: bytes or percent. */
  readonly unit?: string;
  readonly uses_tc?: boolean | null;
  /** Of a sample; percent in hundredths. */
  readonly value?: number;
}

/** The shape of every list. */
export interface TimelineEventsPage {
  /** Number of rows that pass the filters, on all pages. */
  readonly count: number;
  /** As requested; ties are ordered by the row's key. */
  readonly ordering: string;
  readonly page: number;
  readonly page_size: number;
  readonly results: readonly TimelineEventsRow[];
  /** Why a field is null, by the field's name; * stands for all of them. */
  readonly unknown: Readonly<Record<string, string>>;
}

export interface TimelineEventsRow {
  /** GPU; null: it ran on the CPU. */
  readonly device_id: number | null;
  /** Its length. */
  readonly duration_ns: number | null;
  /** kernel, copy, set, graph, op or call. */
  readonly event_kind: string;
  /** Kernel, CUDA call or Op ID. */
  readonly event_name: string | null;
  /** Row id in the table of its kind. */
  readonly event_row: number;
  /** The op that it belongs to. */
  readonly op_id: string | null;
  /** Path of that op. */
  readonly op_name: string | null;
  /** Process. */
  readonly process_id: number | null;
  /** Start on the clock of the profile. */
  readonly start_time_ns: number | null;
  /** CUDA stream; null: none was recorded. */
  readonly stream_id: number | null;
  /** Thread; null: it ran on a GPU. */
  readonly thread_id: number | null;
}

/** Selected events. */
export interface TimelineHits {
  readonly count: number;
  /** The one that was asked for. */
  readonly event: Hit | null;
  readonly first: Hit | null;
  /** False: there are too many to step through. */
  readonly is_listed: boolean;
  readonly lanes: readonly HitLane[];
  readonly longest: Hit | null;
  /** The one of median duration. */
  readonly median: Hit | null;
  /** Sum of the durations of those that are listed. */
  readonly time_ns: number;
}

/** What lanes show of some time. */
export interface TimelineItems {
  /** Shorter events that begin in one bin are joined. */
  readonly bin_ns: number;
  readonly lanes: readonly LaneItems[];
  readonly names: readonly string[];
  /** Start of the first bin of the grid. */
  readonly start_ns: number;
  /** End of the last bin. */
  readonly stop_ns: number;
}

/** What events are: columns of one length. Tiles have indices into them. */
export interface TimelineLabels {
  /** As in the items of a timeline. */
  readonly category: readonly number[];
  /** Index into names. */
  readonly name: readonly number[];
  /** Index of the op's id in names; -1: none. */
  readonly op: readonly number[];
  /** Index of its type in names; -1: none. */
  readonly op_type: readonly number[];
}

/** Totals of a range of time. */
export interface TimelineRange {
  /** Work of GPUs, most time first. */
  readonly categories: readonly RangeCategory[];
  /** The longest of them. */
  readonly events: readonly RangeEvent[];
  /** Those of which at least half lies in the range; null: none. */
  readonly iterations: RangeIterations | null;
  /** Events of all lanes asked for. */
  readonly num_events: number;
  /** The ops with the most GPU time in the range. */
  readonly ops: readonly RangeOp[];
  readonly start_ns: number;
  readonly stop_ns: number;
}

/** A kernel over all ops that launched it. */
export interface TopKernel {
  /** Sum of the durations of its launches. */
  readonly gpu_time_ns: number;
  /** Full name of the kernel. */
  readonly kernel_long_name: string | null;
  /** Short name of the kernel. */
  readonly kernel_name: string;
  /** Number of launches. */
  readonly num_calls: number;
  /** Number of ops that launched it. */
  readonly num_ops: number;
  /** Library, operation, types, tile and layout. */
  readonly readable_name: string;
  /** Share of all kernels' time. */
  readonly share_pct: number | null;
  /** Whether it used Tensor Cores. */
  readonly uses_tc: boolean | null;
}

/** The kernels with the most GPU time. */
export interface TopKernels {
  /** Number of different kernels, by full name. */
  readonly count: number;
  readonly results: readonly TopKernel[];
}

/** A file that was uploaded. */
export interface Upload {
  /** The file's name, in characters that are safe in a path. */
  readonly file_name: string;
  /** Names the upload in POST profiles/. */
  readonly id: string;
  readonly size_bytes: number;
}

/** What limits a step. */
export interface Verdict {
  /** Name of the advice that explains it. */
  readonly advice: string | null;
  /** Whether it is that of the step without profiling. */
  readonly is_corrected: boolean;
  readonly limit: "launch" | "host" | "loader" | "communication" | "copy" | "compute" | "memory" | "unknown";
  /** That the CPU runs ahead of the GPU, if it does. */
  readonly pace: string | null;
  /** The verdict in one sentence; for an unknown one the reason. */
  readonly sentence: string;
  /** Share of the step it is based on. */
  readonly share_pct: number | null;
}

/** The step with changes. */
export interface WhatIf {
  /** high, medium or low. */
  readonly confidence: string;
  readonly error_pct: ErrorPct;
  /** 10th and 90th percentile of the steps. */
  readonly interval_ns: readonly number[] | null;
  /** Whether it is only a bound. */
  readonly is_bound: boolean | null;
  /** Whether it is without the costs of profiling. */
  readonly is_corrected: boolean;
  /** The iterations that were replayed. */
  readonly iterations: readonly number[];
  /** Median of the measured steps. */
  readonly measured_step_ns: number;
  /** What lowers the confidence. */
  readonly notes: readonly string[];
  /** Median step; null: no change. */
  readonly predicted_step_ns: number | null;
  /** Median of the replayed steps. */
  readonly replayed_step_ns: number;
  /** Share of the step that is unexplained idle time. */
  readonly unexplained_pct: number;
}
