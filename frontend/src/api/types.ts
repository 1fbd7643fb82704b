/** The JSON of /api/v1 with its own names. Times are integers in ns; null means "not known". */

/** Why a field of the same object is null. */
export type UnknownReasons = Readonly<Record<string, string>>;

export interface ApiErrorBody {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** How much of a table a report in one file holds, whatever the filters. */
export interface Cut {
  readonly held: number;
  readonly count: number;
}

export interface ListPage<Row> {
  readonly count: number;
  readonly page: number;
  readonly page_size: number;
  readonly ordering: string;
  readonly results: readonly Row[];
  /** Columns that this database does not hold. */
  readonly unknown?: UnknownReasons;
  /** In a report, which holds the first rows of a table only. */
  readonly cut?: Cut;
}

export interface ProfileItem {
  readonly id: string;
  readonly name: string | null;
  readonly file_name: string;
  /** The viewer stored the file: deleting the profile deletes it. */
  readonly is_stored?: boolean;
  readonly is_foreign: boolean;
  readonly db_version: string | null;
  readonly mode: string | null;
  readonly framework: string | null;
  readonly gpu_count: number | null;
  readonly created_at: string | null;
  readonly aggregation_count: number | null;
  /** The file was lost or replaced since the viewer started. */
  readonly error?: ApiErrorBody | null;
}

export interface SystemConfig {
  readonly profile_name: string | null;
  readonly gpu_count: number | null;
  readonly gpu_names: readonly string[] | null;
  readonly cpu_model: string | null;
  readonly driver_version: string | null;
  readonly framework: string | null;
  readonly cuda_version: string | null;
  readonly cudnn_version: string | null;
  readonly nsys_version: string | null;
  readonly dlprof_version: string | null;
  readonly dlprof_db_version: string | null;
  readonly viewer_version: string | null;
  readonly original_command: string | null;
  readonly unknown?: UnknownReasons;
}

export interface ProfileWarning {
  readonly code: string;
  readonly message: string;
  readonly count: number | null;
}

export interface Profile extends ProfileItem {
  readonly system_config: SystemConfig;
  readonly domains: readonly string[];
  readonly warnings: readonly ProfileWarning[];
  readonly info: Readonly<Record<string, string | null>>;
  readonly can_reaggregate: boolean;
  readonly cannot_reaggregate_reason: string | null;
}

export interface Aggregation {
  readonly id: number;
  readonly iter_start: number | null;
  readonly iter_stop: number | null;
  readonly iter_aggregated: number | null;
  readonly key_node: string | null;
  readonly key_node_reason: string | null;
  readonly created_at: string | null;
}

export interface Upload {
  readonly id: string;
  readonly file_name: string;
  readonly size_bytes: number;
  /** Bytes that are there: the next part begins here. */
  readonly offset: number;
  readonly chunk_bytes: number;
}

export interface RemovedProfile {
  readonly id: string;
  readonly deleted_files: readonly string[];
  readonly is_unlisted: boolean;
}

export type JobState = "queued" | "running" | "done" | "failed" | "cancelled";

export interface AggregationRequest {
  readonly key_node?: string | null;
  readonly iter_start?: number | null;
  readonly iter_stop?: number | null;
}

/** One of several files that an import joins. */
export interface RankFile {
  readonly file_name: string;
  readonly rank: number | null;
  readonly state: "waiting" | "importing" | "done" | "failed";
}

export interface Job {
  readonly id: string;
  readonly kind?: "aggregation" | "import";
  readonly profile_id: string;
  readonly profile_name?: string;
  readonly state: JobState;
  readonly phase: string | null;
  readonly progress_pct: number | null;
  readonly rows_per_s: number | null;
  readonly eta_s: number | null;
  readonly message: string | null;
  readonly error: ApiErrorBody | null;
  readonly aggregation_id: number | null;
  /** Where the aggregation is: another profile when a database of NVIDIA's was converted. */
  readonly result_profile_id?: string | null;
  readonly is_cancel_requested?: boolean;
  readonly request: AggregationRequest;
  /** Jobs that begin before it; told of one job only, and only while it waits. */
  readonly jobs_before?: number | null;
  readonly files?: readonly RankFile[];
  readonly created_at: string | null;
  readonly started_at: string | null;
  readonly finished_at: string | null;
}

export interface PerformanceSummary {
  readonly wall_clock_time_ns: number | null;
  readonly tc_utilization_pct: number | null;
  readonly gpu_utilization_pct: number | null;
  readonly total_iterations: number | null;
  readonly profiled_iterations: number | null;
  readonly iter_start: number | null;
  readonly iter_stop: number | null;
  readonly iter_avg_ns: number | null;
  readonly iter_std_dev_ns: number | null;
  readonly key_node: string | null;
  readonly key_node_reason: string | null;
  readonly unknown?: UnknownReasons;
}

export interface GpuUtilization {
  readonly using_gpu_pct: number | null;
  readonly idle_gpu_pct: number | null;
  readonly unknown?: UnknownReasons;
}

export interface ResourceUsage {
  readonly tc_pct: number | null;
  readonly non_tc_pct: number | null;
  readonly memory_pct: number | null;
  readonly dataloader_pct: number | null;
  readonly io_pct: number | null;
  readonly cpu_pct: number | null;
  readonly other_pct: number | null;
  readonly unknown?: UnknownReasons;
}

export interface TimeAndCount {
  readonly gpu_time_ns: number | null;
  readonly count: number | null;
}

export interface KernelSummary {
  readonly all: TimeAndCount;
  readonly using_tc: TimeAndCount;
  readonly memory: TimeAndCount;
  readonly other: TimeAndCount;
  readonly unknown?: UnknownReasons;
}

export interface TensorCoreEfficiency {
  readonly tc_utilization_pct: number | null;
  readonly using_tc_pct: number | null;
  readonly not_using_tc_pct: number | null;
  readonly unknown?: UnknownReasons;
}

export interface Op {
  readonly op_id: string;
  readonly op_name: string;
  readonly direction: string | null;
  readonly op_type: string | null;
  readonly gpu_time_ns: number | null;
  readonly cpu_time_ns: number | null;
  readonly num_calls: number | null;
  readonly tc_eligible: boolean | null;
  readonly using_tc: boolean | null;
  readonly kernel_calls: number | null;
  readonly is_bad_data_type: boolean | null;
  readonly data_type: string | null;
  readonly source_line: string | null;
  readonly stack_trace: string | null;
  readonly share_pct: number | null;
  readonly tflops_per_second?: number | null;
  readonly gbytes_per_second?: number | null;
  readonly arithmetic_intensity?: number | null;
  readonly bound?: string | null;
  readonly ideal_time_ns?: number | null;
  readonly left_time_ns?: number | null;
  readonly peak_pct?: number | null;
}

/** What ops should have cost beside what they took; one of the names is there. */
export interface EfficiencySum {
  readonly op_type?: string | null;
  readonly group_name?: string;
  readonly iteration_index?: number;
  readonly duration_ns?: number | null;
  readonly num_calls?: number | null;
  readonly gpu_time_ns: number | null;
  readonly known_pct: number | null;
  readonly flops: number | null;
  readonly bytes: number | null;
  readonly tflops_per_second: number | null;
  readonly gbytes_per_second: number | null;
  readonly arithmetic_intensity: number | null;
  readonly ideal_time_ns: number | null;
  readonly left_time_ns: number | null;
  readonly peak_pct: number | null;
  readonly bound?: string | null;
  readonly mfu_pct?: number | null;
}

/** What an op should have cost beside what it took. */
export interface OpEfficiency extends EfficiencySum {
  readonly op_id: string;
  readonly op_name: string;
  readonly direction: string | null;
  readonly op_type: string | null;
  readonly precision: string | null;
  readonly unknown_reason: string | null;
  readonly peak_reason: string | null;
  readonly source_line: string | null;
  readonly stack_trace: string | null;
}

/** The same of the whole aggregation. */
export interface Efficiency {
  readonly mfu_pct: number | null;
  readonly median_step_mfu_pct: number | null;
  readonly tflops_per_second_per_gpu: number | null;
  readonly tflops_per_second: number | null;
  readonly gbytes_per_second: number | null;
  readonly peak_pct: number | null;
  readonly known_pct: number | null;
}

export interface Kernel {
  readonly kernel_name: string;
  readonly uses_tc: boolean | null;
  readonly num_calls: number | null;
  readonly gpu_time_ns: number | null;
  readonly gpu_time_avg_ns: number | null;
  readonly gpu_time_min_ns: number | null;
  readonly gpu_time_max_ns: number | null;
  readonly share_pct: number | null;
  /** The op that launched it; absent in the list of one op. */
  readonly op_id?: string;
  readonly op_name?: string;
  readonly direction?: string | null;
  readonly source_line?: string | null;
  readonly stack_trace?: string | null;
}

export interface Recommendation {
  readonly id: string | number;
  readonly problem: string;
  readonly recommendation: string;
  readonly drill_down: string | null;
}

/** Our own advice, or a question that the profile does not answer. */
export interface AdviceRow {
  readonly place: number;
  readonly advice: string;
  readonly status: "found" | "unknown";
  readonly severity: "high" | "medium" | "low" | null;
  readonly gain_pct: number | null;
  readonly certainty: "sure" | "likely" | "possible" | null;
  readonly problem: string;
  readonly recommendation: string | null;
  readonly reasoning: string | null;
  readonly needs: string | null;
  readonly frameworks: string;
  /** JSON. */
  readonly drill_down: string | null;
  /** JSON. */
  readonly evidence: string | null;
  readonly proof_query: string | null;
}

export type IterationKind = "before" | "iteration" | "after";

export interface Iteration {
  readonly iteration_index: number;
  readonly kind: IterationKind | null;
  readonly is_profiled: boolean;
  readonly start_time_ns: number | null;
  readonly stop_time_ns: number | null;
  readonly duration_ns: number | null;
  readonly total_kernel_count: number | null;
  readonly tc_kernel_count: number | null;
  readonly tc_duration_ns: number | null;
  readonly non_tc_duration_ns: number | null;
  readonly memory_duration_ns: number | null;
  readonly dataloader_duration_ns: number | null;
  readonly io_duration_ns: number | null;
  readonly cpu_duration_ns: number | null;
  readonly other_duration_ns: number | null;
  /** Time with a kernel running, the mean over the GPUs. */
  readonly gpu_time_ns: number | null;
}

/** The four statistics of one time of an op type: sum, mean, least and most of a call. */
type Statistics<Stem extends string> = {
  readonly [Key in `${Stem}_ns` | `${Stem}_avg_ns` | `${Stem}_min_ns` | `${Stem}_max_ns`]:
    | number
    | null;
};

export interface OpType
  extends Statistics<"cpu_time">,
    Statistics<"gpu_time">,
    Statistics<"cpu_overhead">,
    Statistics<"gpu_idle"> {
  readonly op_type: string;
  readonly num_ops: number | null;
  readonly num_calls: number | null;
}

export interface GroupOp {
  /** Path of a group, with a slash at its end; the op ID of a leaf. */
  readonly id: string;
  readonly name: string;
  readonly trimmed_name: string;
  readonly kind: "group" | "op";
  /** 1 for the root. */
  readonly level: number;
  readonly num_op_instances: number | null;
  readonly num_tc_eligible_ops: number | null;
  readonly num_ops_using_tc: number | null;
  readonly cpu_time_ns: number | null;
  readonly gpu_time_ns: number | null;
  readonly cpu_overhead_ns: number | null;
  readonly gpu_idle_ns: number | null;
}

export interface Gpu {
  readonly device_id: number;
  readonly gpu_name: string;
  readonly compute_capability: string | null;
  readonly sm_count: number | null;
  readonly gpu_utilization_pct: number | null;
  readonly memory_total_bytes?: number | null;
  readonly memory_used_bytes?: number | null;
}

/** A rank of a distributed job. */
export interface Rank {
  readonly rank: number;
  readonly host_name: string | null;
  readonly device_id: number | null;
  readonly host_device_id: number | null;
  readonly gpu_utilization_pct: number | null;
  readonly computing_ns: number | null;
  readonly imbalance_pct: number | null;
  readonly communication_ns: number | null;
  readonly exposed_communication_ns: number | null;
  readonly waiting_ns: number | null;
  readonly waiting_pct: number | null;
  readonly times_last: number | null;
  readonly kept_waiting_ns: number | null;
  readonly collective_count: number | null;
  readonly unmatched_count: number | null;
  readonly kernel_count: number | null;
  readonly aligned_by: string | null;
  readonly clock_offset_ns: number | null;
  readonly clock_residual_ns: number | null;
  readonly source_file: string | null;
}

/** A collective on one rank. */
export interface Collective {
  readonly sequence: number | null;
  readonly communicator: number | null;
  readonly collective_name: string;
  readonly rank: number;
  readonly waiting_ns: number | null;
  readonly duration_ns: number;
  readonly bytes: number | null;
  readonly start_time_ns: number;
  readonly iteration_index: number;
  readonly rank_count: number;
  readonly kept_waiting_ns: number | null;
  readonly kernel_name: string;
}

/** An op inside of one iteration. */
export interface IterationOp {
  readonly op_id: string;
  readonly op_name: string;
  readonly direction: string | null;
  readonly op_type: string | null;
  /** Start of its first instance in the iteration. */
  readonly op_start_ns: number | null;
  readonly total_kernel_count: number | null;
  readonly tc_kernel_count: number | null;
  readonly gpu_time_ns: number | null;
  readonly tc_gpu_time_ns: number | null;
  readonly data_type: string | null;
  readonly source_line: string | null;
  readonly stack_trace: string | null;
}

/** One launch of a kernel. */
export interface Launch {
  readonly op_id: string;
  readonly op_name: string;
  readonly kernel_name: string;
  readonly kernel_long_name: string | null;
  readonly device_id: number | null;
  readonly stream_id: number | null;
  /** Start on the GPU. */
  readonly start_time_ns: number | null;
  readonly gpu_time_ns: number | null;
  readonly uses_tc: boolean | null;
  readonly grid: string | null;
  readonly block: string | null;
  readonly api_start_ns: number | null;
  readonly api_time_ns: number | null;
}
