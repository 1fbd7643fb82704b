-- Version 2.1.14
-- Tables of a database of this program. The public interface is views.sql; these may change.
-- Every column has its meaning and unit above it. Times: ns on the profile's own clock.

-- Facts about the file and its sources.
CREATE TABLE dldb_meta (
    -- Name of the value. Unit: none.
    key TEXT PRIMARY KEY,
    -- The value. Unit: none.
    value TEXT NOT NULL
) WITHOUT ROWID;

-- Named sets of NVTX ranges.
CREATE TABLE domains (
    -- Row id; 1 is the default domain. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Domain name. Unit: none.
    name TEXT NOT NULL
);

-- Processes of the profiled run.
CREATE TABLE processes (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Process id of the operating system. Unit: none.
    pid INTEGER NOT NULL
);

-- Threads of the profiled run.
CREATE TABLE threads (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Thread id of the operating system. Unit: none.
    tid INTEGER NOT NULL,
    -- Row of processes. Unit: none.
    process INTEGER NOT NULL,
    -- Name in the operating system; empty: none recorded. Unit: none.
    name TEXT NOT NULL
);

-- GPUs that the profiled processes could see.
CREATE TABLE devices (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Number of the GPU, unique in the database. Unit: none.
    device_id INTEGER NOT NULL,
    -- Product name; empty: unknown. Unit: none.
    name TEXT NOT NULL,
    -- Major compute capability; NULL: unknown. Unit: none.
    cuda_major INTEGER,
    -- Minor compute capability; NULL: unknown. Unit: none.
    cuda_minor INTEGER,
    -- Streaming multiprocessors; NULL: unknown. Unit: count.
    sm_count INTEGER,
    -- Memory of the GPU; NULL: unknown. Unit: bytes.
    memory_bytes INTEGER,
    -- Most memory in use at once during the run; NULL: unknown. Unit: bytes.
    memory_used_bytes INTEGER,
    -- Memory in use before the application started; NULL: unknown. Unit: bytes.
    memory_before_bytes INTEGER,
    -- Mean of NVML's utilization during the run; NULL: unknown. Unit: percent.
    busy_pct REAL,
    -- Source of the use: nvml (all processes), cuda (recorded allocations), pytorch (what its allocator held), dlprof; empty: nothing. Unit: none.
    memory_source TEXT NOT NULL,
    -- Why the use is unknown; empty: it is known. Unit: none.
    memory_reason TEXT NOT NULL,
    -- Machine that it is in; empty: unknown. Unit: none.
    host TEXT NOT NULL,
    -- Its number on that machine; device_id is unique in the database. Unit: none.
    host_device_id INTEGER NOT NULL,
    -- Unique identifier of the GPU; empty: unknown. Unit: none.
    uuid TEXT NOT NULL,
    -- Highest clock of its multiprocessors; NULL: unknown. Unit: Hz.
    clock_hz INTEGER,
    -- Bandwidth of its memory; NULL: unknown. Unit: bytes per second.
    bandwidth INTEGER
);

-- Hardware and versions of the profiled machine; one row.
CREATE TABLE system_config (
    -- Always 1: the import finished. Unit: none.
    is_valid INTEGER NOT NULL,
    -- Number of GPUs as text. Unit: none.
    num_gpus TEXT NOT NULL,
    -- CPU product name. Unit: none.
    cpu_model TEXT NOT NULL,
    -- GPU driver version. Unit: none.
    driver_version TEXT NOT NULL,
    -- Deep-learning framework and version. Unit: none.
    framework TEXT NOT NULL,
    -- CUDA version. Unit: none.
    cuda_version TEXT NOT NULL,
    -- cuDNN version. Unit: none.
    cudnn_version TEXT NOT NULL,
    -- Nsight Systems version. Unit: none.
    nsys_version TEXT NOT NULL,
    -- Version of the tool that made this file. Unit: none.
    dlprof_version TEXT NOT NULL,
    -- Build of the tool that made this file. Unit: none.
    dlprof_build TEXT NOT NULL,
    -- Name that the user gave the profile. Unit: none.
    profile_name TEXT NOT NULL,
    -- Mode in which ranges were read. Unit: none.
    mode_string TEXT NOT NULL,
    -- Command line, secrets masked. Unit: none.
    original_command TEXT NOT NULL
);

-- Settings of the training script that markers recorded.
CREATE TABLE model_config (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Name of the setting. Unit: none.
    key TEXT NOT NULL UNIQUE,
    -- Its value as JSON; NULL: not recorded. Unit: none.
    value TEXT,
    -- Package whose markers recorded it; empty: not recorded. Unit: none.
    source TEXT NOT NULL,
    -- Why it is unknown; empty: it is recorded. Unit: none.
    reason TEXT NOT NULL
);

-- Data that was not used, repaired or guessed.
CREATE TABLE warnings (
    -- Stable name. Unit: none.
    code TEXT NOT NULL,
    -- One sentence. Unit: none.
    message TEXT NOT NULL,
    -- Events concerned. Unit: count.
    count INTEGER NOT NULL,
    -- Their part of the launches, work or time that could be concerned; NULL: unknown. Unit: ratio.
    share REAL,
    -- One of them; empty: none is named. Unit: none.
    example TEXT NOT NULL
);

-- Places in the model, and kinds of work outside it. Identity is fixed at import.
CREATE TABLE ops (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of domains. Unit: none.
    domain INTEGER NOT NULL,
    -- Unique name, CONV2D_1. Unit: none.
    op_id TEXT NOT NULL,
    -- Path and name. Unit: none.
    op_name TEXT NOT NULL,
    -- Kind of op. Unit: none.
    op_type TEXT NOT NULL,
    -- fprop, bprop, recompute (run again for a checkpoint) or empty. Unit: none.
    direction TEXT NOT NULL,
    -- Row of processes. Unit: none.
    process INTEGER NOT NULL,
    -- 0: can use Tensor Cores; 2: unassociated work; 3: cannot. Unit: none.
    tc_support_status INTEGER NOT NULL,
    -- Element type; empty: not recorded. Unit: none.
    data_type TEXT NOT NULL,
    -- Call sites; empty: not recorded. Unit: none.
    stack_trace TEXT NOT NULL,
    -- Row of the forward op of a backward one; NULL: none. Unit: none.
    forward INTEGER,
    -- Whether it can use Tensor Cores, by type, element type, shape and GPU; NULL: unknown. Unit: none.
    tc_fit INTEGER,
    -- Why. Unit: none.
    tc_fit_reason TEXT NOT NULL,
    -- Floating point operations of its first call; NULL: unknown. Unit: count.
    flops INTEGER,
    -- How it is known that the work belongs to it: recorded, provenance (by the compiler), aligned (with a step that has markers), capture (of a CUDA graph), annotated (by the program, in a CUDA graph), module (the op is unknown, the module known) or unknown. Unit: none.
    name_grade TEXT NOT NULL,
    -- What the evidence is, or why it is unknown. Unit: none.
    name_reason TEXT NOT NULL,
    -- Modules that a kernel of compiled code computes for, if they are several. Unit: none.
    shared_modules TEXT NOT NULL DEFAULT ''
);

-- Distinct texts of shapes and parameters, as DLProf's reports show them.
CREATE TABLE shape_texts (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Shapes of the inputs. Unit: none.
    input_shapes TEXT NOT NULL,
    -- Parameters of the op. Unit: none.
    parameters TEXT NOT NULL,
    -- Shapes of the outputs. Unit: none.
    output_shapes TEXT NOT NULL
);

-- Executions of ops, ordered by start, with what does not depend on an aggregation.
CREATE TABLE op_instances (
    -- Row id, in order of start. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of ops. Unit: none.
    op INTEGER NOT NULL,
    -- First start on the CPU. Unit: ns.
    start INTEGER NOT NULL,
    -- Last end on the CPU. Unit: ns.
    stop INTEGER NOT NULL,
    -- Length of its ranges. Unit: ns.
    cpu_time INTEGER NOT NULL,
    -- CPU time outside CUDA calls. Unit: ns.
    cpu_overhead INTEGER NOT NULL,
    -- Union of its kernels, copies and sets. Unit: ns.
    gpu_time INTEGER NOT NULL,
    -- Time between its first start and last end on a GPU when none of its work ran. Unit: ns.
    gpu_idle INTEGER NOT NULL,
    -- Row of threads. Unit: none.
    thread INTEGER NOT NULL,
    -- Row of shape_texts; 0: none. Unit: none.
    shapes INTEGER NOT NULL,
    -- Its costs: a number in op_cost_parts; 0: it ran nothing on a GPU. Unit: none.
    cost INTEGER NOT NULL
);

-- Names of CUDA calls.
CREATE TABLE api_names (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Name as recorded. Unit: none.
    name TEXT NOT NULL
);

-- Every CUDA call of the profile, ordered by start.
CREATE TABLE api_calls (
    -- Row id, in order of start. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of api_names. Unit: none.
    name INTEGER NOT NULL,
    -- Row of ops. Unit: none.
    op INTEGER NOT NULL,
    -- Unit: ns.
    start INTEGER NOT NULL,
    -- Unit: ns.
    duration INTEGER NOT NULL,
    -- Row of threads. Unit: none.
    thread INTEGER NOT NULL,
    -- Links the call to its device work within a process. Unit: none.
    correlation_id INTEGER NOT NULL
);

-- Distinct kernels.
CREATE TABLE kernel_names (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Short name. Unit: none.
    name TEXT NOT NULL,
    -- Demangled name. Unit: none.
    long_name TEXT NOT NULL,
    -- 1: runs Tensor Core instructions; 0: does not, or the name does not say. Unit: none.
    uses_tc INTEGER NOT NULL,
    -- 1, 0, or NULL where the name does not say. Unit: none.
    tc_verdict INTEGER,
    -- Library, operation, types, tile and layout; different kernels may have the same. Unit: none.
    readable_name TEXT NOT NULL,
    -- Ops that TorchInductor fused into it, separated by commas; empty: it did not generate it. Unit: none.
    source_ops TEXT NOT NULL
);

-- Distinct launch sizes.
CREATE TABLE launch_sizes (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Blocks in x. Unit: count.
    grid_x INTEGER NOT NULL,
    -- Blocks in y. Unit: count.
    grid_y INTEGER NOT NULL,
    -- Blocks in z. Unit: count.
    grid_z INTEGER NOT NULL,
    -- Threads of a block in x. Unit: count.
    block_x INTEGER NOT NULL,
    -- Threads of a block in y. Unit: count.
    block_y INTEGER NOT NULL,
    -- Threads of a block in z. Unit: count.
    block_z INTEGER NOT NULL
);

-- Distinct (op, kernel) pairs, by full name; the kernel report has a row per short name.
CREATE TABLE op_kernels (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of ops. Unit: none.
    op INTEGER NOT NULL,
    -- Short kernel name. Unit: none.
    name TEXT NOT NULL,
    -- Whether these launches run Tensor Core instructions. Unit: none.
    uses_tc INTEGER NOT NULL,
    -- Demangled name of the op's last launch with this short name and use of Tensor Cores; DLProf's iteration report shows it for all of them. Unit: none.
    last_long_name TEXT NOT NULL,
    -- Row of kernel_names. Unit: none.
    kernel INTEGER NOT NULL
);

-- Every kernel of the profile, ordered by launch: an iteration is a range of row ids.
CREATE TABLE kernels (
    -- Row id, in order of launch. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of op_kernels. Unit: none.
    op_kernel INTEGER NOT NULL,
    -- Row of op_instances. Unit: none.
    instance INTEGER NOT NULL,
    -- Row of kernel_names. Unit: none.
    name INTEGER NOT NULL,
    -- Start of the API call that launched it; of the kernel itself where none was recorded. Unit: ns.
    api_start INTEGER NOT NULL,
    -- Duration of that call; 0 where none was recorded. Unit: ns.
    api_duration INTEGER NOT NULL,
    -- Start on the GPU. Unit: ns.
    start INTEGER NOT NULL,
    -- Unit: ns.
    duration INTEGER NOT NULL,
    -- Row of devices. Unit: none.
    device INTEGER NOT NULL,
    -- CUDA stream; -1: not recorded. Unit: none.
    stream_id INTEGER NOT NULL,
    -- Row of processes. Unit: none.
    process INTEGER NOT NULL,
    -- Row of launch_sizes. Unit: none.
    size INTEGER NOT NULL
);

-- Every copy and set of the profile, ordered by launch.
CREATE TABLE memory_ops (
    -- Row id, in order of launch. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of ops. Unit: none.
    op INTEGER NOT NULL,
    -- 1: copy, 0: set. Unit: none.
    is_copy INTEGER NOT NULL,
    -- Row of api_names of the launching call; 0: none recorded. Unit: none.
    name INTEGER NOT NULL,
    -- CUDA's copy kind; -1 for a set. Unit: none.
    copy_kind INTEGER NOT NULL,
    -- Memory on the host's side: 0 pageable, 1 pinned, other values as in CUPTI; -1: not recorded, or none. Unit: none.
    host_kind INTEGER NOT NULL,
    -- Bytes moved or set; -1: not recorded. Unit: bytes.
    bytes INTEGER NOT NULL,
    -- Start of the launching call; of the work itself where none was recorded. Unit: ns.
    api_start INTEGER NOT NULL,
    -- Unit: ns.
    api_duration INTEGER NOT NULL,
    -- Start on the GPU. Unit: ns.
    start INTEGER NOT NULL,
    -- Unit: ns.
    duration INTEGER NOT NULL,
    -- Row of devices. Unit: none.
    device INTEGER NOT NULL,
    -- CUDA stream; -1: not recorded. Unit: none.
    stream_id INTEGER NOT NULL,
    -- Row of processes. Unit: none.
    process INTEGER NOT NULL
);

-- CUDA graphs that were recorded as a whole: their kernels are not in the profile.
CREATE TABLE graph_launches (
    -- Row id, in order of launch. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of ops. Unit: none.
    op INTEGER NOT NULL,
    -- Start of the launching call; of the graph itself where none was recorded. Unit: ns.
    api_start INTEGER NOT NULL,
    -- Unit: ns.
    api_duration INTEGER NOT NULL,
    -- Start on the GPU. Unit: ns.
    start INTEGER NOT NULL,
    -- Unit: ns.
    duration INTEGER NOT NULL,
    -- Row of devices. Unit: none.
    device INTEGER NOT NULL,
    -- CUDA stream; -1: not recorded. Unit: none.
    stream_id INTEGER NOT NULL,
    -- Row of processes. Unit: none.
    process INTEGER NOT NULL
);

-- Kernels that ranges of custom domains cover.
CREATE TABLE domain_kernels (
    -- Row of domains. Unit: none.
    domain INTEGER NOT NULL,
    -- 0: launched by the range's own thread; 1: by another one while the range was open. Unit: none.
    by_time INTEGER NOT NULL,
    -- Row of kernels. Unit: none.
    kernel INTEGER NOT NULL,
    -- Row of op_kernels; NULL where by_time. Unit: none.
    op_kernel INTEGER,
    -- Row of op_instances. Unit: none.
    instance INTEGER NOT NULL,
    PRIMARY KEY (domain, by_time, kernel)
) WITHOUT ROWID;

-- Copies and sets that ranges of custom domains cover.
CREATE TABLE domain_memory_ops (
    -- Row of domains. Unit: none.
    domain INTEGER NOT NULL,
    -- 0: launched by the range's own thread; 1: by another one while the range was open. Unit: none.
    by_time INTEGER NOT NULL,
    -- Row of memory_ops. Unit: none.
    memory_op INTEGER NOT NULL,
    -- Row of op_instances. Unit: none.
    instance INTEGER NOT NULL,
    PRIMARY KEY (domain, by_time, memory_op)
) WITHOUT ROWID;

-- NVTX marks: points in time.
CREATE TABLE marks (
    -- Row id, in order of time. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Unit: ns.
    time INTEGER NOT NULL,
    -- Text of the mark. Unit: none.
    name TEXT NOT NULL,
    -- Name of its domain. Unit: none.
    domain TEXT NOT NULL,
    -- Row of threads. Unit: none.
    thread INTEGER NOT NULL
);

-- Ranges and marks that carry a category or a payload.
CREATE TABLE annotations (
    -- Row id, in the order of the source. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Unit: ns.
    start INTEGER NOT NULL,
    -- NULL: a mark. Unit: ns.
    stop INTEGER,
    -- Text of the range or mark. Unit: none.
    name TEXT NOT NULL,
    -- Name of its domain. Unit: none.
    domain TEXT NOT NULL,
    -- Category; empty: none. Unit: none.
    category TEXT NOT NULL,
    -- Value passed along; empty: none. Unit: none.
    payload TEXT NOT NULL,
    -- Row of threads; NULL: unknown. Unit: none.
    thread INTEGER
);

-- Names of ranges that may mark an iteration, counters normalized.
CREATE TABLE range_names (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Unit: none.
    name TEXT NOT NULL
);

-- Times in which dlprof's own collector recorded a process; none: the recorder does not say.
CREATE TABLE windows (
    -- Row id, in order of start. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of processes. Unit: none.
    process INTEGER NOT NULL,
    -- Unit: ns.
    start INTEGER NOT NULL,
    -- Unit: ns.
    stop INTEGER NOT NULL,
    -- What ended it: detach (the program went on), stop, end (of the program), failure. Unit: none.
    ended_by TEXT NOT NULL
);

-- Ranges of phases that the program or its serving engine named, the outermost only.
CREATE TABLE phase_ranges (
    -- Row id, in order of start. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Name of the phase: prefill, decode, train. Unit: none.
    phase TEXT NOT NULL,
    -- Row of processes. Unit: none.
    process INTEGER NOT NULL,
    -- Unit: ns.
    start INTEGER NOT NULL,
    -- Unit: ns.
    stop INTEGER NOT NULL,
    -- Tokens that it computes; NULL: unknown. Unit: count.
    tokens INTEGER,
    -- Sequences in its batch; NULL: unknown. Unit: count.
    sequences INTEGER
);

-- Ranges that may mark an iteration: groups, data loaders, ranges of custom domains.
CREATE TABLE named_ranges (
    -- Row id, in order of start. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of range_names. Unit: none.
    name INTEGER NOT NULL,
    -- Row of domains. Unit: none.
    domain INTEGER NOT NULL,
    -- Row of processes. Unit: none.
    process INTEGER NOT NULL,
    -- Unit: ns.
    start INTEGER NOT NULL,
    -- Unit: ns.
    stop INTEGER NOT NULL
);

-- Columns of the long tables as arrays, from which aggregations are computed. Triggers on those
-- tables delete their arrays here when a row changes; the rows are read then.
CREATE TABLE column_blobs (
    -- Name of the table. Unit: none.
    table_name TEXT NOT NULL,
    -- Row id of the first row in the array. Unit: none.
    first_row INTEGER NOT NULL,
    -- Name of the column. Unit: none.
    column_name TEXT NOT NULL,
    -- 1, 2, 4 or 8. Unit: bytes.
    item_bytes INTEGER NOT NULL,
    -- Added to each item. Unit: that of the column.
    base INTEGER NOT NULL,
    -- Little-endian unsigned integers, one for each row. Unit: that of the column.
    data BLOB NOT NULL,
    PRIMARY KEY (table_name, first_row, column_name)
);

-- Per device: unions of busy time by priority, each holding those before it.
-- Level 1 Tensor Core kernels, 2 and other kernels, 3 and memory, 4 and data loader, 5 and I/O, 6 and CPU;
-- by themselves: 7 kernels that compute, 8 kernels that move data between GPUs.
CREATE TABLE busy_time (
    -- Row of domains. Unit: none.
    domain INTEGER NOT NULL,
    -- Row of devices. Unit: none.
    device INTEGER NOT NULL,
    -- 1 to 8. Unit: none.
    level INTEGER NOT NULL,
    -- Little-endian int64: starts of the disjoint intervals. Unit: ns.
    starts BLOB NOT NULL,
    -- Little-endian int64: their ends. Unit: ns.
    stops BLOB NOT NULL,
    PRIMARY KEY (domain, device, level)
);

-- Rollups over a range of iterations.
CREATE TABLE aggregations (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- First aggregated iteration, inclusive. Unit: none.
    iter_start INTEGER NOT NULL,
    -- Last aggregated iteration, inclusive. Unit: none.
    iter_stop INTEGER NOT NULL,
    -- Key node, chosen by the user or found; empty: none. Unit: none.
    key_node TEXT NOT NULL,
    -- Why it was chosen. Unit: none.
    key_node_reason TEXT NOT NULL,
    -- The request as JSON: the same request is not aggregated twice. Unit: none.
    request TEXT NOT NULL UNIQUE,
    -- When it was made, UTC. Unit: none.
    created_at TEXT NOT NULL,
    -- Phase of the iterations that are aggregated; empty: all. Unit: none.
    phase TEXT NOT NULL DEFAULT ''
);

-- Candidates for the key node that were compared at import, best first.
CREATE TABLE key_node_candidates (
    -- Row id: place in the order of their scores. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Range, or op. Unit: none.
    name TEXT NOT NULL,
    -- step, program, data loader, gradients, optimizer, forward, range or op. Unit: none.
    kind TEXT NOT NULL,
    -- Key node that cuts at its steps: the candidate, or what begins each of its steps. Unit: none.
    key_node TEXT NOT NULL,
    -- Instances of the candidate, most of any process. Unit: none.
    instances INTEGER NOT NULL,
    -- Iterations that the key node cuts the profile into. Unit: none.
    iterations INTEGER NOT NULL,
    -- Median time between two instances. Unit: ns.
    period INTEGER NOT NULL,
    -- How even the times between instances are. Unit: percent.
    evenness REAL NOT NULL,
    -- Steps that launch the kernels of most steps; NULL: no kernels were recorded. Unit: percent.
    alike REAL,
    -- GPU time that was launched between the first instance and the last. Unit: percent.
    coverage REAL NOT NULL,
    -- Instances in each step of the optimizer; NULL: uneven, or no optimizer was recorded. Unit: none.
    per_optimizer_step INTEGER,
    -- Whether a number in its name grows by one. Unit: none.
    counts INTEGER NOT NULL,
    -- How well it marks the steps of the loop, from 0 to 100. Unit: none.
    score INTEGER NOT NULL,
    -- Whether it marks the loop whose steps are the iterations. Unit: none.
    is_chosen INTEGER NOT NULL
);

-- Times of the steps of an aggregation: its iterations, without the one before the loop.
CREATE TABLE step_times (
    -- Row of aggregations. Unit: none.
    aggr INTEGER PRIMARY KEY,
    -- Whether it is the aggregation of the steady range, which the import adds. Unit: none.
    is_steady INTEGER NOT NULL,
    -- Number of steps. Unit: none.
    steps INTEGER NOT NULL,
    -- Median time of a step; NULL: no steps. Unit: ns.
    median INTEGER,
    -- 10th percentile of the times of steps; NULL: no steps. Unit: ns.
    p10 INTEGER,
    -- 90th percentile of the times of steps; NULL: no steps. Unit: ns.
    p90 INTEGER,
    -- What the steady range leaves out and why, or why there is none; empty: not searched. Unit: none.
    steady_note TEXT NOT NULL
);

-- The typical step of an aggregation.
CREATE TABLE typical_steps (
    -- Row of aggregations. Unit: none.
    aggr INTEGER PRIMARY KEY,
    -- Step without profiling that the user gave; NULL: none was given. Unit: ns.
    given INTEGER,
    -- median or mean, whichever the typical step is; NULL: there are no steps. Unit: none.
    statistic TEXT,
    -- Median of the steps; NULL: there are none. Unit: ns.
    median INTEGER,
    -- Mean of the steps; NULL: there are none. Unit: ns.
    mean INTEGER,
    -- 10th percentile of the steps; NULL: there are none. Unit: ns.
    p10 INTEGER,
    -- 90th percentile of the steps; NULL: there are none. Unit: ns.
    p90 INTEGER,
    -- Steps that these are of. Unit: none.
    steps INTEGER NOT NULL,
    -- Iteration of the first of them; NULL: there are none. Unit: none.
    first INTEGER,
    -- Iteration of the last of them; NULL: there are none. Unit: none.
    last INTEGER,
    -- Steps of the loop, in all of the profile. Unit: none.
    loop_steps INTEGER NOT NULL,
    -- Why the mean is the typical step; empty: the median is. Unit: none.
    reason TEXT NOT NULL,
    -- How a loop was found that no range marks; empty: the key node marks it. Unit: none.
    loop_reason TEXT NOT NULL,
    -- JSON list: what lies between steps by kind, with its time in ns and number. Unit: none.
    gaps TEXT NOT NULL
);

-- Steps of a loop: each ends when its host part and the last GPU work that it launched have ended.
CREATE TABLE steps (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Number of the step in the loop, from 0. Unit: none.
    step INTEGER NOT NULL,
    -- Iteration that it lies in. Unit: none.
    iter_value INTEGER NOT NULL,
    -- Where the one before ended or, after a pause, where it begins itself. Unit: ns.
    start INTEGER NOT NULL,
    -- Unit: ns.
    stop INTEGER NOT NULL,
    -- Whether it counts for the typical step of the aggregation. Unit: none.
    is_typical INTEGER NOT NULL,
    PRIMARY KEY (aggr, step)
) WITHOUT ROWID;

-- Iterations of an aggregation: all of the profile, not only the aggregated ones.
CREATE TABLE iterations (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Number of the iteration. Unit: none.
    iter_value INTEGER NOT NULL,
    -- before, iteration, after, or between (recorded windows). Unit: none.
    kind TEXT NOT NULL,
    -- Whether it lies in the aggregated range. Unit: none.
    aggregated INTEGER NOT NULL,
    -- Unit: ns.
    start INTEGER NOT NULL,
    -- Exclusive. Unit: ns.
    stop INTEGER NOT NULL,
    -- First row of kernels. Unit: none.
    kernel_low INTEGER NOT NULL,
    -- Row of kernels behind the last one. Unit: none.
    kernel_high INTEGER NOT NULL,
    PRIMARY KEY (aggr, iter_value)
) WITHOUT ROWID;

-- Phases of iterations: prefill, decode, training and so on; iterations without one have no row.
CREATE TABLE iteration_phases (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Number of the iteration. Unit: none.
    iter_value INTEGER NOT NULL,
    -- The phase that covers most of it; mixed: several do. Unit: none.
    phase TEXT NOT NULL,
    -- Tokens that the phases in it compute; NULL: unknown. Unit: count.
    tokens INTEGER,
    -- Sequences in the batch; NULL: unknown. Unit: count.
    sequences INTEGER,
    -- Phases that end in it: the micro-steps of a training step. Unit: count.
    parts INTEGER NOT NULL,
    PRIMARY KEY (aggr, iter_value)
) WITHOUT ROWID;

-- Breakdown of the time of each iteration; mean over the devices, adding up to its duration.
CREATE TABLE iteration_times (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Row of domains. Unit: none.
    domain INTEGER NOT NULL,
    -- Number of the iteration. Unit: none.
    iter_value INTEGER NOT NULL,
    -- Kernels launched. Unit: count.
    kernels INTEGER NOT NULL,
    -- Of them those that use Tensor Cores. Unit: count.
    tc_kernels INTEGER NOT NULL,
    -- Tensor Core kernels running. Unit: ns.
    tc INTEGER NOT NULL,
    -- Other kernels running. Unit: ns.
    non_tc INTEGER NOT NULL,
    -- CUDA graphs running that were recorded as a whole, no known kernel. Unit: ns.
    graph INTEGER NOT NULL,
    -- Copies and sets running. Unit: ns.
    memory INTEGER NOT NULL,
    -- Data loader running, no GPU work. Unit: ns.
    dataloader INTEGER NOT NULL,
    -- Input and output, nothing of the above. Unit: ns.
    io INTEGER NOT NULL,
    -- Ops on the CPU, nothing of the above. Unit: ns.
    cpu INTEGER NOT NULL,
    -- The rest. Unit: ns.
    other INTEGER NOT NULL,
    -- Kernels moving data between GPUs; part of the above. Unit: ns.
    communication INTEGER NOT NULL,
    -- Of it, while no kernel computed. Unit: ns.
    exposed_communication INTEGER NOT NULL,
    PRIMARY KEY (aggr, domain, iter_value)
) WITHOUT ROWID;

-- Metrics of ops in an aggregation.
CREATE TABLE op_metrics (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Row of ops. Unit: none.
    op INTEGER NOT NULL,
    -- Instances that start in the range. Unit: count.
    num_calls INTEGER NOT NULL,
    -- Kernels launched in the range. Unit: count.
    kernel_calls INTEGER NOT NULL,
    -- Whether any of them uses Tensor Cores. Unit: none.
    using_tc INTEGER NOT NULL,
    -- Sum of kernel durations. Unit: ns.
    kernel_time INTEGER NOT NULL,
    -- The same of Tensor Core kernels. Unit: ns.
    tc_kernel_time INTEGER NOT NULL,
    -- Sum over instances. Unit: ns.
    cpu_time_sum INTEGER NOT NULL,
    -- Unit: ns.
    cpu_time_min INTEGER NOT NULL,
    -- Unit: ns.
    cpu_time_max INTEGER NOT NULL,
    -- Sum over instances of the union of their device work. Unit: ns.
    gpu_time_sum INTEGER NOT NULL,
    -- Unit: ns.
    gpu_time_min INTEGER NOT NULL,
    -- Unit: ns.
    gpu_time_max INTEGER NOT NULL,
    -- CPU time outside CUDA calls. Unit: ns.
    cpu_overhead_sum INTEGER NOT NULL,
    -- Unit: ns.
    cpu_overhead_min INTEGER NOT NULL,
    -- Unit: ns.
    cpu_overhead_max INTEGER NOT NULL,
    -- Idle time between the op's own device work. Unit: ns.
    gpu_idle_sum INTEGER NOT NULL,
    -- Unit: ns.
    gpu_idle_min INTEGER NOT NULL,
    -- Unit: ns.
    gpu_idle_max INTEGER NOT NULL
);

-- Metrics of (op, kernel) pairs in an aggregation.
CREATE TABLE kernel_metrics (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Row of op_kernels. Unit: none.
    op_kernel INTEGER NOT NULL,
    -- Launches. Unit: count.
    calls INTEGER NOT NULL,
    -- Unit: ns.
    gpu_time_sum INTEGER NOT NULL,
    -- Unit: ns.
    gpu_time_min INTEGER NOT NULL,
    -- Unit: ns.
    gpu_time_max INTEGER NOT NULL,
    -- Time of the launching calls. Unit: ns.
    api_time_sum INTEGER NOT NULL,
    -- Unit: ns.
    api_time_min INTEGER NOT NULL,
    -- Unit: ns.
    api_time_max INTEGER NOT NULL
);

-- Metrics of groups (prefixes of op names) in an aggregation; statistics are over iterations.
CREATE TABLE group_metrics (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Row of domains. Unit: none.
    domain INTEGER NOT NULL,
    -- Prefix with a slash at its end, or _CompleteModel_. Unit: none.
    group_name TEXT NOT NULL,
    -- Depth: / is 1. Unit: none.
    level INTEGER NOT NULL,
    -- Instances of ops in it. Unit: count.
    num_calls INTEGER NOT NULL,
    -- Ops in it that can use Tensor Cores. Unit: count.
    num_tc_eligible_ops INTEGER NOT NULL,
    -- Ops in it that use them. Unit: count.
    num_ops_using_tc INTEGER NOT NULL,
    -- Unit: ns.
    cpu_time_sum INTEGER NOT NULL,
    -- Unit: ns.
    cpu_time_avg REAL NOT NULL,
    -- Unit: ns.
    cpu_time_min INTEGER NOT NULL,
    -- Unit: ns.
    cpu_time_max INTEGER NOT NULL,
    -- Unit: ns.
    gpu_time_sum INTEGER NOT NULL,
    -- Unit: ns.
    gpu_time_avg REAL NOT NULL,
    -- Unit: ns.
    gpu_time_min INTEGER NOT NULL,
    -- Unit: ns.
    gpu_time_max INTEGER NOT NULL,
    -- Unit: ns.
    cpu_overhead_sum INTEGER NOT NULL,
    -- Unit: ns.
    cpu_overhead_avg REAL NOT NULL,
    -- Unit: ns.
    cpu_overhead_min INTEGER NOT NULL,
    -- Unit: ns.
    cpu_overhead_max INTEGER NOT NULL,
    -- Unit: ns.
    gpu_idle_sum INTEGER NOT NULL,
    -- Unit: ns.
    gpu_idle_avg REAL NOT NULL,
    -- Unit: ns.
    gpu_idle_min INTEGER NOT NULL,
    -- Unit: ns.
    gpu_idle_max INTEGER NOT NULL
);

-- GPU utilization per device in an aggregation.
CREATE TABLE device_metrics (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Row of domains. Unit: none.
    domain INTEGER NOT NULL,
    -- Row of devices. Unit: none.
    device INTEGER NOT NULL,
    -- Share of the wall time in which a kernel ran, 0 to 100. Unit: percent.
    gpu_utilization REAL NOT NULL,
    PRIMARY KEY (aggr, domain, device)
) WITHOUT ROWID;

-- Totals of an aggregation; one row per domain.
CREATE TABLE model_metrics (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Row of domains. Unit: none.
    domain INTEGER NOT NULL,
    -- Sum of the aggregated iterations. Unit: ns.
    wall_time INTEGER NOT NULL,
    -- Tensor Core kernel time over kernel time of eligible ops, 0 to 100. Unit: percent.
    tc_utilization REAL NOT NULL,
    -- Mean over all visible GPUs, 0 to 100. Unit: percent.
    gpu_utilization REAL NOT NULL,
    -- Mean over the GPUs that ran anything, 0 to 100. Unit: percent.
    used_gpu_utilization REAL NOT NULL,
    -- Unit: percent.
    tc_duration_pct REAL NOT NULL,
    -- Unit: percent.
    non_tc_duration_pct REAL NOT NULL,
    -- Unit: percent.
    graph_duration_pct REAL NOT NULL,
    -- Unit: percent.
    memory_duration_pct REAL NOT NULL,
    -- Unit: percent.
    dataloader_duration_pct REAL NOT NULL,
    -- Unit: percent.
    io_duration_pct REAL NOT NULL,
    -- Unit: percent.
    cpu_duration_pct REAL NOT NULL,
    -- Unit: percent.
    other_duration_pct REAL NOT NULL,
    -- Share of the wall time in which kernels moved data between GPUs. Unit: percent.
    communication_pct REAL NOT NULL,
    -- Of it, while no kernel computed. Unit: percent.
    exposed_communication_pct REAL NOT NULL,
    -- Iterations in the profile. Unit: count.
    total_iterations INTEGER NOT NULL,
    -- Iterations aggregated. Unit: count.
    profiled_iterations INTEGER NOT NULL,
    -- Mean duration of the aggregated iterations. Unit: ns.
    iter_avg REAL NOT NULL,
    -- Standard deviation of the length, over all of them (population). Unit: ns.
    iter_std_dev REAL NOT NULL,
    -- Sum of unions over op instances. Unit: ns.
    ops_all_gpu_time INTEGER NOT NULL,
    -- Unit: ns.
    ops_all_cpu_time INTEGER NOT NULL,
    -- Unit: count.
    ops_all_count INTEGER NOT NULL,
    -- Ops that use Tensor Cores. Unit: ns.
    ops_tc_gpu_time INTEGER NOT NULL,
    -- Unit: ns.
    ops_tc_cpu_time INTEGER NOT NULL,
    -- Unit: count.
    ops_tc_count INTEGER NOT NULL,
    -- Ops that could use Tensor Cores and do not. Unit: ns.
    ops_eligible_gpu_time INTEGER NOT NULL,
    -- Unit: ns.
    ops_eligible_cpu_time INTEGER NOT NULL,
    -- Unit: count.
    ops_eligible_count INTEGER NOT NULL,
    -- All other ops. Unit: ns.
    ops_other_gpu_time INTEGER NOT NULL,
    -- Unit: ns.
    ops_other_cpu_time INTEGER NOT NULL,
    -- Unit: count.
    ops_other_count INTEGER NOT NULL,
    -- Sum of kernel and memory durations. Unit: ns.
    kernels_all_gpu_time INTEGER NOT NULL,
    -- Sum of the launching calls. Unit: ns.
    kernels_all_cpu_time INTEGER NOT NULL,
    -- Distinct short kernel names and memory call names. Unit: count.
    kernels_all_count INTEGER NOT NULL,
    -- Kernels that use Tensor Cores. Unit: ns.
    kernels_tc_gpu_time INTEGER NOT NULL,
    -- Unit: ns.
    kernels_tc_cpu_time INTEGER NOT NULL,
    -- Unit: count.
    kernels_tc_count INTEGER NOT NULL,
    -- Copies and sets. Unit: ns.
    kernels_memory_gpu_time INTEGER NOT NULL,
    -- Unit: ns.
    kernels_memory_cpu_time INTEGER NOT NULL,
    -- Unit: count.
    kernels_memory_count INTEGER NOT NULL,
    -- All other kernels. Unit: ns.
    kernels_other_gpu_time INTEGER NOT NULL,
    -- Unit: ns.
    kernels_other_cpu_time INTEGER NOT NULL,
    -- Unit: count.
    kernels_other_count INTEGER NOT NULL,
    PRIMARY KEY (aggr, domain)
) WITHOUT ROWID;

-- Templates and values of the sentences in this database, for translation.
CREATE TABLE texts (
    -- The sentence, as stored elsewhere in this database. Unit: none.
    text TEXT PRIMARY KEY,
    -- JSON object: the template and the values of its placeholders. Unit: none.
    made_of TEXT NOT NULL
);

-- Ops of aggregated iterations that launched more than 20,000 kernels; those of shorter iterations are summed on request.
CREATE TABLE iteration_op_times (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Number of the iteration. Unit: none.
    iter_value INTEGER NOT NULL,
    -- Row of ops. Unit: none.
    op INTEGER NOT NULL,
    -- Kernels launched. Unit: count.
    kernels INTEGER NOT NULL,
    -- Of them those that run Tensor Core instructions. Unit: count.
    tc_kernels INTEGER NOT NULL,
    -- Sum of the durations. Unit: ns.
    gpu_time INTEGER NOT NULL,
    -- Of those that run Tensor Core instructions. Unit: ns.
    tc_gpu_time INTEGER NOT NULL,
    PRIMARY KEY (aggr, iter_value, op)
) WITHOUT ROWID;

-- Results of the expert systems.
CREATE TABLE expert_issues (
    -- Row id, in order of report. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Name of the detector. Unit: none.
    detector TEXT NOT NULL,
    -- Unit: none.
    problem TEXT NOT NULL,
    -- Unit: none.
    recommendation TEXT NOT NULL,
    -- Name in a fixed list of views that show the details; empty: none. Unit: none.
    javascript_function TEXT NOT NULL,
    -- Always empty. Unit: none.
    javascript_args TEXT NOT NULL
);

-- Processes of the job that ran work on a GPU.
CREATE TABLE ranks (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Number of the rank. Unit: none.
    rank INTEGER NOT NULL UNIQUE,
    -- Row of processes. Unit: none.
    process INTEGER NOT NULL,
    -- Row of devices: the GPU that it used most; NULL: none. Unit: none.
    device INTEGER,
    -- Machine that it ran on; empty: unknown. Unit: none.
    host TEXT NOT NULL,
    -- Name of the file that it was read from. Unit: none.
    source_file TEXT NOT NULL,
    -- Offset added to its times to convert them to the common clock; NULL: unknown. Unit: ns.
    clock_offset INTEGER,
    -- Part of it that collectives added to the start times of the captures. Unit: ns.
    clock_correction INTEGER,
    -- Median distance of its ends of collectives from the reference's; NULL: none matched. Unit: ns.
    clock_residual INTEGER,
    -- What aligned it: same clock, start times, collectives, nothing. Unit: none.
    aligned_by TEXT NOT NULL
);

-- Calls that wait, or that make a stream wait, for a stream or an event; in order of start.
CREATE TABLE device_waits (
    -- Row id, in order of start. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Start of the call. Unit: ns.
    start INTEGER NOT NULL,
    -- Row of processes. Unit: none.
    process INTEGER NOT NULL,
    -- Row of devices. Unit: none.
    device INTEGER NOT NULL,
    -- Stream that waits or is waited for; -1: none, or all of the GPU. Unit: none.
    stream_id INTEGER NOT NULL,
    -- Time between the start of the call that recorded the event and this one; -1: no event, or it was not recorded. Unit: ns.
    record_ago INTEGER NOT NULL,
    -- Stream in which the event was recorded; -1: no event, or it was not recorded. Unit: none.
    record_stream INTEGER NOT NULL
);

-- Streams that wait for the legacy default stream, and that stream itself; empty: none were recorded.
CREATE TABLE blocking_streams (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of processes. Unit: none.
    process INTEGER NOT NULL,
    -- CUDA stream. Unit: none.
    stream_id INTEGER NOT NULL,
    -- Whether it is the legacy default stream. Unit: none.
    is_default INTEGER NOT NULL
);

-- Kernels of CUDA graphs that depend on kernels of another stream, as recorded.
CREATE TABLE kernel_links (
    -- Row of kernels. Unit: none.
    kernel INTEGER NOT NULL,
    -- Row of kernels: the one that it waits for. Unit: none.
    after INTEGER NOT NULL
);

-- Calls of collectives that all their ranks recorded.
CREATE TABLE collective_calls (
    -- Row of kernels. Unit: none.
    kernel INTEGER PRIMARY KEY,
    -- Number of the call, the same on all its ranks. Unit: none.
    call INTEGER NOT NULL
);

-- Sizes of collectives.
CREATE TABLE collective_bytes (
    -- Row of kernels: a collective whose size the source recorded. Unit: none.
    kernel INTEGER PRIMARY KEY,
    -- Amount of data that the kernel's rank contributed. Unit: bytes.
    bytes INTEGER NOT NULL
);

-- Kernels of collectives, matched between ranks.
CREATE TABLE collectives (
    -- Row of kernels. Unit: none.
    kernel INTEGER PRIMARY KEY,
    -- Row of ranks. Unit: none.
    rank INTEGER NOT NULL,
    -- Group of ranks that call collectives together; NULL: not matched. Unit: none.
    communicator INTEGER,
    -- Number of the call in its communicator, from 0; NULL: not matched. Unit: none.
    sequence INTEGER,
    -- Kind, AllReduce. Unit: none.
    kind TEXT NOT NULL,
    -- Ranks found in this call. Unit: count.
    num_ranks INTEGER NOT NULL,
    -- Time between its own start and that of the last rank it waited for; NULL: unknown. Unit: ns.
    waiting INTEGER,
    -- Waiting of all the other ranks for this one, where it came last; NULL: unknown. Unit: ns.
    kept_waiting INTEGER,
    -- Amount of data that the rank contributed; NULL: not recorded. Unit: bytes.
    bytes INTEGER
);

-- Ranks within an aggregation.
CREATE TABLE rank_metrics (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Row of ranks. Unit: none.
    rank INTEGER NOT NULL,
    -- Share of the window in which kernels ran on its GPU; NULL: it has none. Unit: percent.
    gpu_utilization REAL,
    -- Time in which kernels, graphs, copies or sets ran on its GPU; NULL: it has none. Unit: ns.
    busy INTEGER,
    -- Time in which kernels that compute ran on its GPU. Unit: ns.
    computing INTEGER,
    -- Time in which kernels that move data between GPUs ran on its GPU. Unit: ns.
    communication INTEGER,
    -- Of it, while no kernel computed. Unit: ns.
    exposed_communication INTEGER,
    -- Of that, while its collectives waited for other ranks; NULL: unknown. Unit: ns.
    exposed_waiting INTEGER,
    -- Computing time against the mean of all ranks, 0: equal. Unit: percent.
    imbalance REAL,
    -- Kernels that it launched. Unit: count.
    kernels INTEGER NOT NULL,
    -- Collectives that it took part in. Unit: count.
    collectives INTEGER NOT NULL,
    -- Of them those that were not matched with other ranks. Unit: count.
    unmatched INTEGER NOT NULL,
    -- Waiting for other ranks in collectives; NULL: unknown. Unit: ns.
    waiting INTEGER,
    -- Collectives in which it was the last to start. Unit: count.
    times_last INTEGER NOT NULL,
    -- Waiting of the other ranks for it in those; NULL: unknown. Unit: ns.
    kept_waiting INTEGER,
    PRIMARY KEY (aggr, rank)
) WITHOUT ROWID;

-- Distinct calls of operators, copies and sets, with their costs.
CREATE TABLE cost_units (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Operator, or kind of copy. Unit: none.
    name TEXT NOT NULL,
    -- Sizes of the arguments as JSON; empty: not recorded. Unit: none.
    input_shapes TEXT NOT NULL,
    -- Sizes of the output as JSON, where they had to be found elsewhere; else empty. Unit: none.
    output_shape TEXT NOT NULL,
    -- Floating point operations; NULL: unknown. Unit: count.
    flops INTEGER,
    -- Data to move when every tensor is read and written once; NULL: unknown. Unit: bytes.
    bytes INTEGER,
    -- Whether the operations are those of matrix products. Unit: none.
    is_matrix INTEGER NOT NULL,
    -- What bounds it: a name in peak_rates; empty: unknown. Unit: none.
    precision TEXT NOT NULL,
    -- Why something is unknown; empty: all is known. Unit: none.
    reason TEXT NOT NULL,
    -- Whether its kernels may compute matrix products that are not counted. Unit: none.
    hides_matrix INTEGER NOT NULL
);

-- Parts of the costs of op instances.
CREATE TABLE op_cost_parts (
    -- Number of the cost. Unit: none.
    cost INTEGER NOT NULL,
    -- Row of cost_units. Unit: none.
    unit INTEGER NOT NULL,
    -- How often it is in the cost. Unit: count.
    calls INTEGER NOT NULL,
    PRIMARY KEY (cost, unit)
) WITHOUT ROWID;

-- Peak rates of the GPU that an aggregation uses.
CREATE TABLE peak_rates (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Precision, bandwidth (of the memory) or link (to the host). Unit: none.
    name TEXT NOT NULL,
    -- TFLOP/s (TOP/s for int8), GB/s for bandwidth and link; NULL: unknown. Unit: none.
    rate REAL,
    -- GPU whose rates they are; empty: not in the table. Unit: none.
    gpu_name TEXT NOT NULL,
    -- Whether the user gave it. Unit: none.
    is_given INTEGER NOT NULL,
    PRIMARY KEY (aggr, name)
) WITHOUT ROWID;

-- Ideal and actual time of ops in an aggregation.
CREATE TABLE op_efficiency (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Row of ops. Unit: none.
    op INTEGER NOT NULL,
    -- Executions that ran something on a GPU. Unit: count.
    calls INTEGER NOT NULL,
    -- Of them those with known operations or bytes. Unit: count.
    known_calls INTEGER NOT NULL,
    -- GPU time of all. Unit: ns.
    gpu_time INTEGER NOT NULL,
    -- GPU time of those with known operations or bytes. Unit: ns.
    known_gpu_time INTEGER NOT NULL,
    -- Floating point operations of the executions for which they are known; NULL: there are none. Unit: count.
    flops INTEGER,
    -- GPU time of those executions. Unit: ns.
    flops_gpu_time INTEGER,
    -- Operations of matrix products among them. Unit: count.
    matrix_flops INTEGER,
    -- Those at the peak of their precision. Unit: ns.
    matrix_ideal_time INTEGER,
    -- Data to move of the executions for which it is known; NULL: there is none. Unit: bytes.
    bytes INTEGER,
    -- GPU time of those executions. Unit: ns.
    bytes_gpu_time INTEGER,
    -- Time at the GPU's peaks of the executions for which it is known; NULL: there is none. Unit: ns.
    ideal_time INTEGER,
    -- GPU time of those executions. Unit: ns.
    ideal_gpu_time INTEGER,
    -- Part of the ideal time that operations bound. Unit: ns.
    compute_time INTEGER,
    -- Part that memory bounds. Unit: ns.
    memory_time INTEGER,
    -- Part that the bus to the host bounds. Unit: ns.
    link_time INTEGER,
    -- Operations of the executions on the roofline: operations and bytes known, no data over the bus or between GPUs; NULL: there are none, or they are few beside collectives. Unit: count.
    roofline_flops INTEGER,
    -- Their data to move. Unit: bytes.
    roofline_bytes INTEGER,
    -- Their GPU time. Unit: ns.
    roofline_gpu_time INTEGER,
    -- GPU time of the executions that move data over the bus or between GPUs. Unit: ns.
    link_gpu_time INTEGER NOT NULL,
    PRIMARY KEY (aggr, op)
) WITHOUT ROWID;

-- Sums of op_efficiency over the ops in each group.
CREATE TABLE group_efficiency (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Row of domains. Unit: none.
    domain INTEGER NOT NULL,
    -- Prefix with a slash at its end, or _CompleteModel_. Unit: none.
    group_name TEXT NOT NULL,
    -- Ops with a row in op_efficiency. Unit: count.
    ops INTEGER NOT NULL,
    -- Executions that ran something on a GPU. Unit: count.
    calls INTEGER NOT NULL,
    -- Of them those with known operations or bytes. Unit: count.
    known_calls INTEGER NOT NULL,
    -- GPU time of all. Unit: ns.
    gpu_time INTEGER NOT NULL,
    -- GPU time of those with known operations or bytes. Unit: ns.
    known_gpu_time INTEGER NOT NULL,
    -- Floating point operations of the executions for which they are known; NULL: there are none. Unit: count.
    flops INTEGER,
    -- GPU time of those executions. Unit: ns.
    flops_gpu_time INTEGER,
    -- Operations of matrix products among them. Unit: count.
    matrix_flops INTEGER,
    -- Data to move of the executions for which it is known; NULL: there is none. Unit: bytes.
    bytes INTEGER,
    -- GPU time of those executions. Unit: ns.
    bytes_gpu_time INTEGER,
    -- Time at the GPU's peaks of the executions for which it is known; NULL: there is none. Unit: ns.
    ideal_time INTEGER,
    -- GPU time of those executions. Unit: ns.
    ideal_gpu_time INTEGER,
    -- Part of the ideal time that operations bound. Unit: ns.
    compute_time INTEGER,
    -- Part that memory bounds. Unit: ns.
    memory_time INTEGER,
    -- Part that the bus to the host bounds. Unit: ns.
    link_time INTEGER,
    -- Operations of the executions on the roofline: operations and bytes known, no data over the bus or between GPUs; NULL: there are none, or they are few beside collectives. Unit: count.
    roofline_flops INTEGER,
    -- Their data to move. Unit: bytes.
    roofline_bytes INTEGER,
    -- Their GPU time. Unit: ns.
    roofline_gpu_time INTEGER,
    -- GPU time of the executions that move data over the bus or between GPUs. Unit: ns.
    link_gpu_time INTEGER NOT NULL,
    PRIMARY KEY (aggr, domain, group_name)
) WITHOUT ROWID;

-- Ideal and actual time of ops by iteration, in an aggregation.
CREATE TABLE iteration_efficiency (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Number of the iteration. Unit: none.
    iter_value INTEGER NOT NULL,
    -- Executions that ran something on a GPU. Unit: count.
    calls INTEGER NOT NULL,
    -- Of them those with known operations or bytes. Unit: count.
    known_calls INTEGER NOT NULL,
    -- GPU time of all. Unit: ns.
    gpu_time INTEGER NOT NULL,
    -- GPU time of those with known operations or bytes. Unit: ns.
    known_gpu_time INTEGER NOT NULL,
    -- Floating point operations of the executions for which they are known; NULL: there are none. Unit: count.
    flops INTEGER,
    -- GPU time of those executions. Unit: ns.
    flops_gpu_time INTEGER,
    -- Operations of matrix products among them. Unit: count.
    matrix_flops INTEGER,
    -- Those at the peak of their precision. Unit: ns.
    matrix_ideal_time INTEGER,
    -- Data to move of the executions for which it is known; NULL: there is none. Unit: bytes.
    bytes INTEGER,
    -- GPU time of those executions. Unit: ns.
    bytes_gpu_time INTEGER,
    -- Time at the GPU's peaks of the executions for which it is known; NULL: there is none. Unit: ns.
    ideal_time INTEGER,
    -- GPU time of those executions. Unit: ns.
    ideal_gpu_time INTEGER,
    -- Part of the ideal time that operations bound. Unit: ns.
    compute_time INTEGER,
    -- Part that memory bounds. Unit: ns.
    memory_time INTEGER,
    -- Part that the bus to the host bounds. Unit: ns.
    link_time INTEGER,
    -- Operations of the executions on the roofline: operations and bytes known, no data over the bus or between GPUs; NULL: there are none, or they are few beside collectives. Unit: count.
    roofline_flops INTEGER,
    -- Their data to move. Unit: bytes.
    roofline_bytes INTEGER,
    -- Their GPU time. Unit: ns.
    roofline_gpu_time INTEGER,
    -- GPU time of the executions that move data over the bus or between GPUs. Unit: ns.
    link_gpu_time INTEGER NOT NULL,
    -- Known operations of matrix products, those of recomputed checkpoints left out. Unit: count.
    model_flops INTEGER NOT NULL,
    -- Those at the peaks of their precisions. Unit: ns.
    model_ideal_time INTEGER NOT NULL,
    -- Known operations of matrix products, with those of recomputed checkpoints. Unit: count.
    hardware_flops INTEGER NOT NULL,
    -- Those at the peaks of their precisions. Unit: ns.
    hardware_ideal_time INTEGER NOT NULL,
    -- GPU time of the executions without matrix products that are not counted. Unit: ns.
    matrix_known_gpu_time INTEGER NOT NULL,
    PRIMARY KEY (aggr, iter_value)
) WITHOUT ROWID;

-- Calls of units in ops, in an aggregation.
CREATE TABLE op_units (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Row of ops. Unit: none.
    op INTEGER NOT NULL,
    -- Row of cost_units. Unit: none.
    unit INTEGER NOT NULL,
    -- Unit: count.
    calls INTEGER NOT NULL,
    PRIMARY KEY (aggr, op, unit)
) WITHOUT ROWID;

-- Efficiency of a whole aggregation.
CREATE TABLE model_efficiency (
    -- Row of aggregations. Unit: none.
    aggr INTEGER PRIMARY KEY,
    -- GPUs that ran kernels. Unit: count.
    gpus INTEGER NOT NULL,
    -- Known operations of matrix products, those of checkpoints' recomputation left out; NULL: none. Unit: count.
    model_flops INTEGER,
    -- Model FLOPs utilization: model_flops at the peaks of their precisions over wall time and GPUs; NULL: unknown, because kernels with more than 20 % of the GPU time may compute matrix products that are not counted. Unit: percent.
    mfu REAL,
    -- Known operations of matrix products, with those of checkpoints' recomputation; NULL: none. Unit: count.
    hardware_flops INTEGER,
    -- Hardware FLOPs utilization: the same of hardware_flops. Unit: percent.
    hfu REAL,
    -- What the model FLOPs utilization is at least, also where it is unknown. Unit: percent.
    mfu_at_least REAL
);

-- Advice for an aggregation, and the questions that its profile does not answer.
CREATE TABLE advice (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Position in the list, from 1: largest gain first, open questions last. Unit: none.
    place INTEGER NOT NULL,
    -- Stable name. Unit: none.
    advice TEXT NOT NULL,
    -- found, or unknown if the profile lacks the data. Unit: none.
    status TEXT NOT NULL,
    -- high, medium or low; empty: unknown. Unit: none.
    severity TEXT NOT NULL,
    -- Share of the step that a fix could save; NULL: unknown. Unit: percent.
    gain_pct REAL,
    -- Time of a step, or of the work of a GPU without steps; NULL: unknown, or per sample. Unit: ns.
    gain_ns INTEGER,
    -- Share of the step that a fix saves at most, where gain_pct is the least or unknown. Unit: percent.
    most_pct REAL,
    -- The same of gain_ns, where that is the least. Unit: ns.
    most_ns INTEGER,
    -- replay: the steps were replayed with the change; corrected: also without the costs of profiling; estimate: a formula; empty: no gain is known. Unit: none.
    gain_source TEXT NOT NULL,
    -- at_most, or at_least if the time of the CPU as profiled limits it; empty: no gain is known. Unit: none.
    gain_bound TEXT NOT NULL,
    -- sure, likely or possible; empty: unknown. Unit: none.
    certainty TEXT NOT NULL,
    -- One sentence. Unit: none.
    problem TEXT NOT NULL,
    -- What to do; empty: unknown. Unit: none.
    recommendation TEXT NOT NULL,
    -- How the number was computed; empty: unknown. Unit: none.
    reasoning TEXT NOT NULL,
    -- Data that would make it certain; empty: nothing is missing. Unit: none.
    needs TEXT NOT NULL,
    -- Frameworks that it applies to. Unit: none.
    frameworks TEXT NOT NULL,
    -- JSON: the page of the viewer that shows all of it, with its filters; empty: none. Unit: none.
    drill_down TEXT NOT NULL,
    -- JSON list: ops, kernels, iterations, GPUs, settings, with their times in ns. Unit: none.
    evidence TEXT NOT NULL,
    -- SQL on the public views that proves it in one row; empty: unknown. Unit: none.
    proof_query TEXT NOT NULL,
    -- Column of that row. Unit: none.
    proof_column TEXT NOT NULL,
    -- Expected value of that column; NULL: unknown. Unit: none.
    proof_value INTEGER
);

-- Time on the critical path of an aggregation: of some of its steady steps, or of all of them on request.
CREATE TABLE critical_path (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Position, longest first, from 1. Unit: none.
    place INTEGER NOT NULL,
    -- kernel, copy, set, graph, communication, call, cpu, before (Python before an op), loader, launch, gap, return, event, thread or unexplained. Unit: none.
    kind TEXT NOT NULL,
    -- Op ID of work and of the time between calls, name of a call; empty: neither. Unit: none.
    owner TEXT NOT NULL,
    -- Mean time in a step. Unit: ns.
    time INTEGER NOT NULL,
    -- Share of the step. Unit: percent.
    share REAL NOT NULL,
    PRIMARY KEY (aggr, place)
) WITHOUT ROWID;

-- What the step of an aggregation gains when ops take less time, in some of its steady steps, or in all of them on request.
CREATE TABLE op_sensitivity (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Position, largest effect first, from 1. Unit: none.
    place INTEGER NOT NULL,
    -- Unique name of the op. Unit: none.
    op_id TEXT NOT NULL,
    -- fprop, bprop, recompute or empty. Unit: none.
    direction TEXT NOT NULL,
    -- Mean time of its work on the GPU in a step. Unit: ns.
    own_time INTEGER NOT NULL,
    -- Mean time of its work on the critical path of a step. Unit: ns.
    path_time INTEGER NOT NULL,
    -- Time that the step gains when the op gains one ns, for small changes. Unit: ratio.
    gain_ratio REAL NOT NULL,
    -- How much later its work may end without delaying a step; NULL: any time. Unit: ns.
    slack INTEGER,
    PRIMARY KEY (aggr, place)
) WITHOUT ROWID;

-- Who owned the time of an aggregation's iterations; for aggregations added after the import filled at first use.
CREATE TABLE owners (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- Number of the owner, from 0. Unit: none.
    place INTEGER NOT NULL,
    -- What the GPU did or waited for: tensor core compute, other compute, communication, copy, set, waiting for the host, launching, launched, not started, launch not recorded or tail. Unit: none.
    class TEXT NOT NULL,
    -- Why the GPU was idle (data loader, event wait, name of a blocking call); empty: it was busy, or its class says why. Unit: none.
    reason TEXT NOT NULL,
    -- Row of ops; NULL: no op. Unit: none.
    op INTEGER,
    -- Row of range_names: the range around what was no op; NULL: none. Unit: none.
    range_name INTEGER,
    -- Time in all iterations and on all GPUs that ran work. Unit: ns.
    time INTEGER NOT NULL,
    -- Iterations times GPUs, by which the time is divided for the mean. Unit: count.
    samples INTEGER NOT NULL,
    PRIMARY KEY (aggr, place)
) WITHOUT ROWID;

-- The times of the owners in each iteration, as arrays; an aggregation whose iterations are part of those of another one may have none.
CREATE TABLE owner_times (
    -- Row of aggregations. Unit: none.
    aggr INTEGER NOT NULL,
    -- First iteration in the array. Unit: none.
    iter_value INTEGER NOT NULL,
    -- 1, 2, 4 or 8. Unit: bytes.
    item_bytes INTEGER NOT NULL,
    -- Added to each item. Unit: ns.
    base INTEGER NOT NULL,
    -- Little-endian unsigned integers: for each iteration the time of each owner, the sum of all GPUs. Unit: ns.
    data BLOB NOT NULL,
    PRIMARY KEY (aggr, iter_value)
) WITHOUT ROWID;

-- Quantities of GPUs that were sampled.
CREATE TABLE counters (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of devices. Unit: none.
    device INTEGER NOT NULL,
    -- Memory in use, Utilization, what Nsight Systems calls it, or the metric of CUPTI. Unit: none.
    name TEXT NOT NULL,
    -- bytes or percent. Unit: none.
    unit TEXT NOT NULL,
    -- nvml (dlprof, while the application ran), nsys (GPU metrics of Nsight Systems) or kineto (samples of torch.profiler). Unit: none.
    source TEXT NOT NULL
);

-- Samples of these quantities; in times without one they are unknown.
CREATE TABLE counter_samples (
    -- Row id, in order of start. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of counters. Unit: none.
    counter INTEGER NOT NULL,
    -- When it was read. Unit: ns.
    start INTEGER NOT NULL,
    -- Until when it stands: the next reading, or one interval later where readings are missing. Unit: ns.
    stop INTEGER NOT NULL,
    -- Bytes, or hundredths of a percent. Unit: as its counter.
    value INTEGER NOT NULL
);

-- Recordings of GPU memory: one for each device of each recorded file.
CREATE TABLE memory_recordings (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Number of the GPU, as the recorded process counts. Unit: none.
    device INTEGER NOT NULL,
    -- snapshot (PyTorch's allocator), kineto (the same, of torch.profiler) or nsys (the CUDA driver). Unit: none.
    source TEXT NOT NULL,
    -- Name of the file. Unit: none.
    source_file TEXT NOT NULL,
    -- Time 0 of the profile's clock on the clock of the recording; NULL: unknown. Unit: ns.
    clock_offset INTEGER,
    -- Events of the allocator. Unit: count.
    events INTEGER NOT NULL,
    -- Most that was allocated. Unit: bytes.
    peak_allocated INTEGER NOT NULL,
    -- First event after which that was, from 0; -1: before all events. Unit: none.
    peak_event INTEGER NOT NULL,
    -- Most that was taken from the driver. Unit: bytes.
    peak_reserved INTEGER NOT NULL,
    -- Allocated before the first event. Unit: bytes.
    start_allocated INTEGER NOT NULL,
    -- Taken from the driver before the first event. Unit: bytes.
    start_reserved INTEGER NOT NULL,
    -- Allocated after the last event. Unit: bytes.
    end_allocated INTEGER NOT NULL,
    -- Allocated, or still used by a stream, after the last event. Unit: bytes.
    end_active INTEGER NOT NULL,
    -- Taken from the driver after the last event. Unit: bytes.
    end_reserved INTEGER NOT NULL,
    -- What cut the steps: recorded, annotations or stacks; empty: there is one step. Unit: none.
    step_evidence TEXT NOT NULL,
    -- Most that was allocated or still used by a stream; NULL: not recorded. Unit: bytes.
    peak_active INTEGER,
    -- Requests that failed because the memory was exhausted. Unit: count.
    failures INTEGER NOT NULL,
    -- The largest of these requests. Unit: bytes.
    failed_bytes INTEGER NOT NULL
);

-- What the page shows first of recordings, if one of them is large; computed when they are stored.
CREATE TABLE memory_overviews (
    -- Row of memory_recordings. Unit: none.
    recording INTEGER PRIMARY KEY,
    -- JSON: totals, the curve of the whole recording, and what lives at the peak. Unit: none.
    data TEXT NOT NULL
);

-- What each step of a recording of memory allocates and no later one releases.
CREATE TABLE memory_growth (
    -- Row of memory_recordings. Unit: none.
    recording INTEGER NOT NULL,
    -- Module and op. Unit: none.
    name TEXT NOT NULL,
    -- All of it after the last step. Unit: bytes.
    bytes INTEGER NOT NULL,
    -- Steps that added to it. Unit: count.
    steps INTEGER NOT NULL
);

-- Peaks of a recording of memory with another configuration, by replay.
CREATE TABLE memory_changes (
    -- Row of memory_recordings. Unit: none.
    recording INTEGER NOT NULL,
    -- The change, as --what-if takes it. Unit: none.
    change TEXT NOT NULL,
    -- Most that would be allocated. Unit: bytes.
    peak_allocated INTEGER NOT NULL
);

-- What ops allocated and holds memory at the peak of their GPU.
CREATE TABLE op_memory (
    -- Row of ops. Unit: none.
    op INTEGER PRIMARY KEY,
    -- Unit: bytes.
    peak_bytes INTEGER NOT NULL
);

-- What ops and modules of groups hold at the peak of their GPU.
CREATE TABLE group_memory (
    -- Prefix with a slash at its end. Unit: none.
    group_name TEXT PRIMARY KEY,
    -- Unit: bytes.
    peak_bytes INTEGER NOT NULL
);

-- What a recording counts at each of its events, as arrays.
CREATE TABLE memory_counts (
    -- Row of memory_recordings. Unit: none.
    recording INTEGER NOT NULL,
    -- time (on the clock of the recording; -1: not recorded), allocated, active or reserved. Unit: none.
    name TEXT NOT NULL,
    -- First event in the array. Unit: none.
    first_event INTEGER NOT NULL,
    -- 1, 2, 4 or 8. Unit: bytes.
    item_bytes INTEGER NOT NULL,
    -- Added to each item. Unit: ns or bytes.
    base INTEGER NOT NULL,
    -- Little-endian unsigned integers, one for each event. Unit: ns or bytes.
    data BLOB NOT NULL,
    PRIMARY KEY (recording, name, first_event)
) WITHOUT ROWID;

-- Allocations of GPU memory.
CREATE TABLE memory_allocations (
    -- Row id. Unit: none.
    id INTEGER PRIMARY KEY,
    -- Row of memory_recordings. Unit: none.
    recording INTEGER NOT NULL,
    -- 0: bytes that belong to no known block. Unit: none.
    address INTEGER NOT NULL,
    -- Unit: bytes.
    bytes INTEGER NOT NULL,
    -- Event that allocated it, from 0; -1: before the first. Unit: none.
    alloc_event INTEGER NOT NULL,
    -- Event that released it; -1: it lives at the end. Unit: none.
    free_event INTEGER NOT NULL,
    -- Number of its block in memory_blocks; -1: none. Unit: none.
    block INTEGER NOT NULL,
    -- Whether it is the rounding of another allocation's block. Unit: none.
    is_rounding INTEGER NOT NULL,
    -- A kind in memory_codes. Unit: none.
    kind INTEGER NOT NULL,
    -- An evidence in memory_codes: why it has that kind. Unit: none.
    evidence INTEGER NOT NULL,
    -- A phase in memory_codes: that in which it was allocated. Unit: none.
    phase INTEGER NOT NULL,
    -- Step in which it was allocated, from 0; -1: before the first event. Unit: none.
    step INTEGER NOT NULL,
    -- Number of its call stack in memory_stacks. Unit: none.
    stack INTEGER NOT NULL,
    -- Number of its module in memory_names; 0: unknown. Unit: none.
    module INTEGER NOT NULL,
    -- Number of its op in memory_names; 0: unknown. Unit: none.
    op INTEGER NOT NULL
);

-- Meaning of the numbers in memory_allocations.
CREATE TABLE memory_codes (
    -- kind, evidence or phase. Unit: none.
    name TEXT NOT NULL,
    -- Number in the column of that name. Unit: none.
    code INTEGER NOT NULL,
    -- Unit: none.
    meaning TEXT NOT NULL,
    PRIMARY KEY (name, code)
) WITHOUT ROWID;

-- Names of modules and ops in recordings of memory.
CREATE TABLE memory_names (
    -- Row of memory_recordings. Unit: none.
    recording INTEGER NOT NULL,
    -- Number in the recording, from 0. Unit: none.
    number INTEGER NOT NULL,
    -- Unit: none.
    name TEXT NOT NULL,
    PRIMARY KEY (recording, number)
) WITHOUT ROWID;

-- Frames of the call stacks that allocated memory.
CREATE TABLE memory_frames (
    -- Row of memory_recordings. Unit: none.
    recording INTEGER NOT NULL,
    -- Number in the recording, from 0. Unit: none.
    number INTEGER NOT NULL,
    -- Function. Unit: none.
    name TEXT NOT NULL,
    -- Its file. Unit: none.
    file TEXT NOT NULL,
    -- Line in the file. Unit: none.
    line INTEGER NOT NULL,
    PRIMARY KEY (recording, number)
) WITHOUT ROWID;

-- Call stacks that allocated memory.
CREATE TABLE memory_stacks (
    -- Row of memory_recordings. Unit: none.
    recording INTEGER NOT NULL,
    -- Number in the recording, from 0; 0 is empty. Unit: none.
    number INTEGER NOT NULL,
    -- JSON list of numbers in memory_frames, the innermost first. Unit: none.
    frames TEXT NOT NULL,
    PRIMARY KEY (recording, number)
) WITHOUT ROWID;

-- Blocks that the allocator held at the end of a recording.
CREATE TABLE memory_blocks (
    -- Row of memory_recordings. Unit: none.
    recording INTEGER NOT NULL,
    -- Number in the recording, from 0. Unit: none.
    number INTEGER NOT NULL,
    -- Unit: none.
    address INTEGER NOT NULL,
    -- Unit: bytes.
    size INTEGER NOT NULL,
    -- What the program asked for; 0: unknown. Unit: bytes.
    requested INTEGER NOT NULL,
    -- 2: allocated, 1: released but still used by a stream, 0: free. Unit: none.
    state INTEGER NOT NULL,
    -- Number of the segment that it is part of. Unit: none.
    segment INTEGER NOT NULL,
    PRIMARY KEY (recording, number)
) WITHOUT ROWID;

-- Steps of a recording of memory, cut where the optimizer has finished.
CREATE TABLE memory_steps (
    -- Row of memory_recordings. Unit: none.
    recording INTEGER NOT NULL,
    -- Number of the step, from 0. Unit: none.
    step INTEGER NOT NULL,
    -- First event of the step. Unit: none.
    first_event INTEGER NOT NULL,
    -- First event in it after which most was allocated. Unit: none.
    peak_event INTEGER NOT NULL,
    -- Most that was allocated in it. Unit: bytes.
    peak_allocated INTEGER NOT NULL,
    PRIMARY KEY (recording, step)
) WITHOUT ROWID;

-- Starts and ends of ranges before each CUDA call; of runs whose step without profiling is known.
CREATE TABLE call_markers (
    -- Row of api_calls of the first item. Unit: none.
    first_call INTEGER PRIMARY KEY,
    -- 1, 2, 4 or 8. Unit: bytes.
    item_bytes INTEGER NOT NULL,
    -- Added to each item. Unit: count.
    base INTEGER NOT NULL,
    -- Little-endian unsigned integers: for each call the starts and ends since the call before it in its thread. Unit: count.
    data BLOB NOT NULL
);

-- The steady steps of an aggregation without the costs of profiling, as their replay gives them.
CREATE TABLE corrected_steps (
    -- Row of aggregations. Unit: none.
    aggr INTEGER PRIMARY KEY,
    -- Median step as measured, of the steps that are replayed. Unit: ns.
    measured INTEGER NOT NULL,
    -- Median step without the costs. Unit: ns.
    step INTEGER NOT NULL,
    -- 10th percentile of these steps. Unit: ns.
    p10 INTEGER NOT NULL,
    -- 90th percentile of these steps. Unit: ns.
    p90 INTEGER NOT NULL,
    -- Mean of these steps. Unit: ns.
    mean INTEGER NOT NULL,
    -- Mean time in which the GPU runs anything. Unit: ns.
    busy INTEGER NOT NULL,
    -- Mean time of the CPU that was taken out of a step. Unit: ns.
    cost INTEGER NOT NULL,
    -- What an event of profiling cost, by what it usually costs. Unit: ratio.
    scale REAL NOT NULL,
    -- Share of the rest of the CPU's time that was taken out, too. Unit: ratio.
    slower REAL NOT NULL,
    -- Time by which the steps without profiling were still shorter. Unit: ns.
    unexplained INTEGER NOT NULL,
    -- Share of the step that waits for work of the GPU. Unit: percent.
    gpu_pct REAL NOT NULL,
    -- Share that waits for work of the CPU. Unit: percent.
    cpu_pct REAL NOT NULL,
    -- Share that waits for the data loader. Unit: percent.
    loader_pct REAL NOT NULL,
    -- Share that waits for communication between GPUs. Unit: percent.
    communication_pct REAL NOT NULL
);
