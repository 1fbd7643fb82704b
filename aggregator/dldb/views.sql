-- The public interface of a DLProf database: the 23 views of DLProf 1.8.0 and those of open-dlprof.

CREATE VIEW view_db_version AS
SELECT (SELECT value FROM dldb_meta WHERE key = 'db_version') AS current_version,
       (SELECT coalesce(max(CASE key WHEN 'original_db_version' THEN value END),
                        max(CASE key WHEN 'converted_from_version' THEN value END),
                        max(CASE key WHEN 'db_version' THEN value END))
        FROM dldb_meta) AS original_version;

CREATE VIEW view_system_config AS
SELECT is_valid, num_gpus, cpu_model, driver_version, framework, cuda_version, cudnn_version,
       nsys_version, dlprof_version, dlprof_build, profile_name, mode_string, original_command
FROM system_config;

CREATE VIEW view_domains AS
SELECT name AS domain_name FROM domains;

CREATE VIEW view_gpu_names AS
SELECT name AS gpu_name FROM devices;

CREATE VIEW view_aggregations AS
SELECT id AS aggr_id, iter_start, iter_stop,
       (SELECT count(*) FROM iterations AS i WHERE i.aggr = a.id AND i.aggregated) AS iter_aggregated,
       key_node AS key_node_name, '' AS user_name, '' AS host_name, created_at AS aggr_start,
       0 AS aggr_end, key_node_reason, coalesce(t.is_steady, 0) AS is_steady, t.steady_note,
       t.steps, t.median AS iter_median, t.p10 AS iter_p10, t.p90 AS iter_p90, a.phase
FROM aggregations AS a LEFT JOIN step_times AS t ON t.aggr = a.id;

CREATE VIEW view_key_node_candidates AS
SELECT id AS candidate_id, name AS candidate_name, kind AS candidate_kind, key_node,
       instances, iterations, period, evenness, alike, coverage, per_optimizer_step, counts,
       score, is_chosen
FROM key_node_candidates;

CREATE VIEW view_key_op_name AS
SELECT id AS aggr_id, key_node AS key_op FROM aggregations;

-- Ops that ran CUDA graphs whose kernels were not recorded: what they computed is unknown.
CREATE VIEW view_graph_ops AS
SELECT DISTINCT i.aggr_id, o.op_id AS op_node_id, g.op
FROM (SELECT aggr AS aggr_id, min(start) AS low, max(stop) AS high FROM iterations WHERE aggregated
      GROUP BY aggr) AS i
JOIN graph_launches AS g ON g.api_start >= i.low AND g.api_start < i.high JOIN ops AS o ON o.id = g.op;

CREATE VIEW view_performance_summary AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, m.wall_time AS wall_clock_time,
       iif(m.aggr IN (SELECT aggr_id FROM view_graph_ops), NULL, m.tc_utilization) AS tc_utilization,
       m.gpu_utilization, m.total_iterations, m.profiled_iterations, a.iter_start, a.iter_stop,
       m.iter_avg, a.key_node, m.iter_std_dev, a.key_node_reason, m.used_gpu_utilization,
       coalesce(t.is_steady, 0) AS is_steady, t.steady_note, t.steps, t.median AS iter_median,
       t.p10 AS iter_p10, t.p90 AS iter_p90
FROM model_metrics AS m JOIN aggregations AS a ON a.id = m.aggr JOIN domains AS d ON d.id = m.domain
LEFT JOIN step_times AS t ON t.aggr = m.aggr;

CREATE VIEW view_step_reference AS
SELECT m.aggr AS aggr_id, d.name AS domain_name,
       CAST(nullif(r.bare, '') AS INTEGER) AS bare_step, CAST(nullif(r.p10, '') AS INTEGER) AS bare_step_p10,
       CAST(nullif(r.p90, '') AS INTEGER) AS bare_step_p90, CAST(nullif(r.bare_steps, '') AS INTEGER) AS bare_steps,
       CAST(nullif(r.profiled, '') AS INTEGER) AS profiled_step,
       CAST(nullif(r.profiled_steps, '') AS INTEGER) AS profiled_steps,
       100.0 * nullif(r.profiled, '') / nullif(CAST(nullif(r.bare, '') AS INTEGER), 0) - 100 AS overhead_pct,
       nullif(r.step_end, '') AS step_end, nullif(r.reason, '') AS reason
FROM model_metrics AS m JOIN domains AS d ON d.id = m.domain
JOIN (SELECT max(iif(key = 'bare_step_ns', value, NULL)) AS bare,
             max(iif(key = 'bare_step_p10_ns', value, NULL)) AS p10,
             max(iif(key = 'bare_step_p90_ns', value, NULL)) AS p90,
             max(iif(key = 'bare_steps', value, NULL)) AS bare_steps,
             max(iif(key = 'profiled_step_ns', value, NULL)) AS profiled,
             max(iif(key = 'profiled_steps', value, NULL)) AS profiled_steps,
             max(iif(key = 'bare_step_end', value, NULL)) AS step_end,
             max(iif(key = 'bare_step_reason', value, NULL)) AS reason
      FROM dldb_meta) AS r;

CREATE VIEW view_recorded_part AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, CAST(nullif(r.windows, '') AS INTEGER) AS recorded_windows,
       CAST(nullif(r.recorded, '') AS INTEGER) AS recorded_time, CAST(nullif(r.run, '') AS INTEGER) AS run_time,
       CAST(nullif(r.recorded_steps, '') AS INTEGER) AS recorded_steps, CAST(nullif(r.steps, '') AS INTEGER) AS run_steps,
       nullif(r.note, '') AS recorded_note
FROM model_metrics AS m JOIN domains AS d ON d.id = m.domain
JOIN (SELECT max(iif(key = 'recorded_windows', value, NULL)) AS windows,
             max(iif(key = 'recorded_ns', value, NULL)) AS recorded,
             max(iif(key = 'run_ns', value, NULL)) AS run,
             max(iif(key = 'recorded_steps', value, NULL)) AS recorded_steps,
             max(iif(key = 'run_steps', value, NULL)) AS steps,
             max(iif(key = 'recorded_note', value, NULL)) AS note
      FROM dldb_meta) AS r;

CREATE VIEW view_windows AS
SELECT w.id AS window_id, p.pid, w.start AS window_start, w.stop AS window_stop, w.ended_by
FROM windows AS w JOIN processes AS p ON p.id = w.process;

CREATE VIEW view_typical_step AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, iif(t.statistic = 'mean', t.mean, t.median) AS typical_step,
       t.statistic, t.median AS step_median, t.mean AS step_mean, t.p10 AS step_p10, t.p90 AS step_p90,
       t.steps AS typical_steps, t.first AS first_iteration, t.last AS last_iteration, t.loop_steps,
       t.reason AS uneven_reason, t.loop_reason, t.gaps AS between_steps, t.given AS given_step
FROM model_metrics AS m JOIN domains AS d ON d.id = m.domain
LEFT JOIN typical_steps AS t ON t.aggr = m.aggr;

CREATE VIEW view_steps AS
SELECT aggr AS aggr_id, step, iter_value, start AS start_time, stop AS stop_time, stop - start AS duration,
       is_typical
FROM steps;

CREATE VIEW view_corrected_step AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, c.step AS corrected_step,
       c.p10 AS corrected_step_p10, c.p90 AS corrected_step_p90, c.measured AS replayed_step,
       100.0 * c.busy / nullif(c.mean, 0) AS corrected_busy_pct,
       max(c.mean - c.busy, 0) AS corrected_idle, c.cost AS profiling_cost,
       c.scale AS profiling_cost_scale, 100.0 * c.slower AS profiling_slower_pct, c.unexplained AS corrected_unexplained,
       c.gpu_pct AS waits_for_gpu_pct, c.cpu_pct AS waits_for_cpu_pct,
       c.loader_pct AS waits_for_loader_pct, c.communication_pct AS waits_for_communication_pct,
       CASE max(c.gpu_pct, c.cpu_pct, c.loader_pct, c.communication_pct)
            WHEN c.gpu_pct THEN 'gpu' WHEN c.cpu_pct THEN 'cpu' WHEN c.loader_pct THEN 'loader'
            WHEN c.communication_pct THEN 'communication' END AS corrected_limit
FROM model_metrics AS m JOIN domains AS d ON d.id = m.domain
LEFT JOIN corrected_steps AS c ON c.aggr = m.aggr;

CREATE VIEW view_model_summary AS
SELECT m.aggr AS aggr_id, d.name AS domain_name,
       m.wall_time,
       iif(m.aggr IN (SELECT aggr_id FROM view_graph_ops), NULL, m.tc_utilization) AS tc_utilization,
       m.gpu_utilization, m.used_gpu_utilization, m.tc_duration_pct, m.non_tc_duration_pct,
       m.graph_duration_pct, m.memory_duration_pct, m.dataloader_duration_pct, m.io_duration_pct,
       m.cpu_duration_pct, m.other_duration_pct, m.communication_pct, m.exposed_communication_pct,
       m.total_iterations, m.profiled_iterations, m.iter_avg, m.iter_std_dev, m.ops_all_gpu_time,
       m.ops_all_cpu_time, m.ops_all_count, m.ops_tc_gpu_time, m.ops_tc_cpu_time, m.ops_tc_count,
       m.ops_eligible_gpu_time, m.ops_eligible_cpu_time, m.ops_eligible_count, m.ops_other_gpu_time,
       m.ops_other_cpu_time, m.ops_other_count, m.kernels_all_gpu_time, m.kernels_all_cpu_time,
       m.kernels_all_count, m.kernels_tc_gpu_time, m.kernels_tc_cpu_time, m.kernels_tc_count,
       m.kernels_memory_gpu_time, m.kernels_memory_cpu_time, m.kernels_memory_count,
       m.kernels_other_gpu_time, m.kernels_other_cpu_time, m.kernels_other_count,
       a.iter_start, a.iter_stop, a.key_node, a.key_node_reason
FROM model_metrics AS m JOIN aggregations AS a ON a.id = m.aggr JOIN domains AS d ON d.id = m.domain;

CREATE VIEW view_domain_model_gpu_utilization AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, m.gpu_utilization
FROM model_metrics AS m JOIN domains AS d ON d.id = m.domain;

CREATE VIEW view_tc_utilization AS
SELECT m.aggr AS aggr_id, d.name AS domain_name,
       iif(m.aggr IN (SELECT aggr_id FROM view_graph_ops), NULL, m.tc_utilization) AS tc_utilization
FROM model_metrics AS m JOIN domains AS d ON d.id = m.domain;

CREATE VIEW view_resource_usage_breakdown AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, m.tc_duration_pct, m.non_tc_duration_pct,
       m.memory_duration_pct, m.dataloader_duration_pct, m.io_duration_pct, m.cpu_duration_pct,
       m.other_duration_pct, m.graph_duration_pct
FROM model_metrics AS m JOIN domains AS d ON d.id = m.domain;

CREATE VIEW view_corrected_breakdown AS
WITH parts AS (
    SELECT b.*, c.corrected_busy_pct AS busy,
           min(coalesce(c.waits_for_loader_pct, 0.0), 100.0 - c.corrected_busy_pct) AS loader,
           nullif(b.tc_duration_pct + b.non_tc_duration_pct + coalesce(b.graph_duration_pct, 0.0)
                  + b.memory_duration_pct, 0.0) AS worked,
           coalesce(b.io_duration_pct, 0.0) + b.cpu_duration_pct + b.other_duration_pct AS idle
    FROM view_resource_usage_breakdown AS b
    JOIN view_corrected_step AS c ON c.aggr_id = b.aggr_id AND c.domain_name = b.domain_name)
SELECT p.aggr_id, p.domain_name, p.tc_duration_pct * busy / worked AS corrected_tc_pct,
       p.non_tc_duration_pct * busy / worked AS corrected_non_tc_pct,
       m.exposed_communication_pct * busy / worked AS corrected_communication_pct,
       p.graph_duration_pct * busy / worked AS corrected_graph_pct,
       p.memory_duration_pct * busy / worked AS corrected_memory_pct, loader AS corrected_dataloader_pct,
       iif(idle > 0, p.io_duration_pct * (100.0 - busy - loader) / idle, p.io_duration_pct) AS corrected_io_pct,
       iif(idle > 0, p.cpu_duration_pct * (100.0 - busy - loader) / idle, 100.0 - busy - loader) AS corrected_cpu_pct,
       iif(idle > 0, p.other_duration_pct * (100.0 - busy - loader) / idle, 0.0) AS corrected_other_pct
FROM parts AS p JOIN view_model_summary AS m ON m.aggr_id = p.aggr_id AND m.domain_name = p.domain_name
WHERE busy IS NOT NULL AND worked IS NOT NULL;

CREATE VIEW view_kernel_summary AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, m.kernels_all_gpu_time AS total_gpu_time,
       m.kernels_all_count AS total_count, m.kernels_tc_gpu_time AS using_tc_gpu_time,
       m.kernels_tc_count AS using_tc_count, m.kernels_memory_gpu_time AS memory_gpu_time,
       m.kernels_memory_count AS memory_count, m.kernels_other_gpu_time AS other_gpu_time,
       m.kernels_other_count AS other_count
FROM model_metrics AS m JOIN domains AS d ON d.id = m.domain;

CREATE VIEW view_op_summary AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, m.ops_all_gpu_time AS nodes_total_gpu_time,
       m.ops_all_count AS nodes_total_count, m.ops_tc_gpu_time AS nodes_using_tc_gpu_time,
       m.ops_tc_count AS nodes_using_tc_count, m.ops_eligible_gpu_time AS nodes_tc_eligible_gpu_time,
       m.ops_eligible_count AS nodes_tc_eligible_count, m.ops_other_gpu_time AS nodes_other_gpu_time,
       m.ops_other_count AS nodes_other_count
FROM model_metrics AS m JOIN domains AS d ON d.id = m.domain;

CREATE VIEW view_gpu_devices AS
SELECT g.aggr AS aggr_id, d.name AS domain_name, v.device_id, v.name AS gpu_name, v.cuda_major,
       v.cuda_minor, v.sm_count, g.gpu_utilization AS device_gpu_utilization,
       v.memory_bytes AS memory_total, v.memory_used_bytes AS memory_used
FROM device_metrics AS g JOIN devices AS v ON v.id = g.device JOIN domains AS d ON d.id = g.domain;

CREATE VIEW view_expert_systems AS
SELECT aggr AS aggr_id, problem, recommendation, javascript_function, javascript_args,
       detector AS exp_sys_id
FROM expert_issues ORDER BY id;

CREATE VIEW view_iterations_all AS
SELECT aggr AS aggr_id, iter_value, start AS start_time, stop AS stop_time, stop - start AS duration,
       kind, aggregated AS is_aggregated
FROM iterations;

CREATE VIEW view_iterations_detail AS
SELECT i.aggr AS aggr_id, d.name AS domain_name, i.iter_value, i.kind, i.aggregated AS is_aggregated,
       i.start AS start_time, i.stop AS stop_time, i.stop - i.start AS duration,
       t.kernels AS total_kernel_count, t.tc_kernels AS using_tc_kernel_count, t.tc AS tc_duration,
       t.non_tc AS non_tc_duration, t.memory AS memory_duration, t.dataloader AS dataloader_duration,
       t.io AS io_duration, t.cpu AS cpu_duration, t.other AS other_duration,
       t.communication AS communication_duration,
       t.exposed_communication AS exposed_communication_duration, t.graph AS graph_duration,
       p.phase, p.tokens, p.sequences, p.parts AS phase_parts
FROM iterations AS i
JOIN iteration_times AS t ON t.aggr = i.aggr AND t.iter_value = i.iter_value
JOIN domains AS d ON d.id = t.domain
LEFT JOIN iteration_phases AS p ON p.aggr = i.aggr AND p.iter_value = i.iter_value;

-- Sums over the aggregated iterations of each phase. The bytes of a step are those of the ops for
-- which they are known, so that the share of the bandwidth is a lower bound.
CREATE VIEW view_phases AS
WITH ahead AS (
    -- Phases whose steps the program launched faster than the GPU ran them, as their first kernels show: a step
    -- of the program is then shorter than the work in it. The time between two kernels may vary by a step.
    SELECT i.aggr, p.phase, max(k.start) - min(k.start) >
           1.1 * (max(i.start) - min(i.start)) + 1.0 * sum(i.stop - i.start) / count(*) AS is_ahead
    FROM iterations AS i JOIN iteration_phases AS p ON p.aggr = i.aggr AND p.iter_value = i.iter_value
    JOIN kernels AS k ON k.id = i.kernel_low
    WHERE i.aggregated AND i.kernel_high > i.kernel_low GROUP BY i.aggr, p.phase
)
SELECT i.aggr AS aggr_id, d.name AS domain_name, p.phase, count(*) AS phase_iterations,
       sum(i.stop - i.start) AS duration,
       iif(count(p.tokens) = count(*), sum(p.tokens), NULL) AS tokens,
       round(avg(p.sequences), 6) AS sequences, round(avg(p.parts), 6) AS phase_parts,
       -- Without a key node the only iteration is the profile, of which a step is some part.
       iif(count(p.tokens) = count(*) AND a.key_node <> '' AND NOT coalesce(h.is_ahead, 0),
           round(1e9 * sum(p.tokens) / nullif(sum(i.stop - i.start), 0), 6), NULL) AS tokens_per_second,
       CASE WHEN p.phase = 'decode' AND a.key_node <> '' AND NOT coalesce(h.is_ahead, 0) AND count(p.tokens) = count(*) AND count(p.sequences) = count(*)
            THEN CAST(round(1.0 * sum((i.stop - i.start) * p.sequences) / nullif(sum(p.tokens), 0)) AS INTEGER) END
           AS token_interval,
       round(100.0 * sum(t.tc + t.non_tc + t.graph) / nullif(sum(i.stop - i.start), 0), 6) AS gpu_busy_pct,
       round(100.0 * sum(t.tc) / nullif(sum(t.tc + t.non_tc + t.graph), 0), 6) AS tc_time_pct,
       sum(e.gpu_time) AS gpu_time_sum, sum(e.flops) AS flops, sum(e.bytes) AS bytes,
       round(100.0 * sum(e.known_gpu_time) / nullif(sum(e.gpu_time), 0), 6) AS known_pct,
       iif(h.is_ahead, NULL, round(100.0 * sum(e.model_ideal_time) / nullif(sum(i.stop - i.start), 0)
           / nullif(m.gpus, 0), 6)) AS mfu_at_least,
       iif(h.is_ahead, NULL, round(1.0 * sum(e.bytes) / nullif(sum(i.stop - i.start), 0), 6)) AS gbytes_per_second,
       -- What graphs move that were recorded as a whole is unknown. Kernels cannot have moved more than twice what
       -- the memory can in their time (the L2 cache is about that fast): then other kernels moved it.
       -- More than the memory can move in the time of the steps came from caches.
       (SELECT iif(h.is_ahead OR 2 * sum(t.graph) > sum(t.tc + t.non_tc + t.graph)
                   OR sum(e.bytes) > 2 * r.rate * sum(e.known_gpu_time)
                   OR sum(e.bytes) > r.rate * m.gpus * sum(i.stop - i.start), NULL,
                   round(100.0 * sum(e.bytes) / nullif(sum(i.stop - i.start), 0) / nullif(m.gpus, 0) / r.rate, 6))
        FROM peak_rates AS r WHERE r.aggr = i.aggr AND r.name = 'bandwidth' AND r.rate > 0)
           AS bandwidth_pct,
       CAST(s.value AS INTEGER) AS bare_phase_step,
       (SELECT CAST(value AS INTEGER) FROM dldb_meta WHERE key = 'bare_steps.' || p.phase) AS bare_phase_steps,
       iif(count(p.tokens) = count(*), round(1e9 * avg(p.tokens) / nullif(CAST(s.value AS INTEGER), 0), 6), NULL)
           AS bare_tokens_per_second
FROM iterations AS i
JOIN iteration_phases AS p ON p.aggr = i.aggr AND p.iter_value = i.iter_value
JOIN aggregations AS a ON a.id = i.aggr
JOIN domains AS d ON d.id = 1
JOIN iteration_times AS t ON t.aggr = i.aggr AND t.iter_value = i.iter_value AND t.domain = d.id
LEFT JOIN iteration_efficiency AS e ON e.aggr = i.aggr AND e.iter_value = i.iter_value
LEFT JOIN model_efficiency AS m ON m.aggr = i.aggr
LEFT JOIN ahead AS h ON h.aggr = i.aggr AND h.phase = p.phase
LEFT JOIN dldb_meta AS s ON s.key = 'bare_step_ns.' || p.phase
WHERE i.aggregated
GROUP BY i.aggr, p.phase;

-- How the ops of the GPU's work are known: a row for each reason.
CREATE VIEW view_name_evidence AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, o.name_grade, count(DISTINCT o.id) AS num_ops,
       sum(m.calls) AS kernel_calls, sum(m.gpu_time_sum) AS gpu_time_sum,
       round(100.0 * sum(m.gpu_time_sum) / nullif(sum(sum(m.gpu_time_sum)) OVER (PARTITION BY m.aggr, d.id), 0), 6)
           AS gpu_time_pct,
       o.name_reason
FROM kernel_metrics AS m JOIN op_kernels AS k ON k.id = m.op_kernel JOIN ops AS o ON o.id = k.op
JOIN domains AS d ON d.id = o.domain
GROUP BY m.aggr, d.id, o.name_grade, o.name_reason;

CREATE VIEW view_iterations_profiled AS
SELECT aggr_id, domain_name, iter_value, start_time, duration, total_kernel_count,
       using_tc_kernel_count, tc_duration, non_tc_duration, memory_duration, dataloader_duration,
       io_duration, cpu_duration, other_duration, graph_duration
FROM view_iterations_detail WHERE is_aggregated = 1;

CREATE VIEW view_op_nodes AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, m.gpu_time_sum AS gpu_time, m.cpu_time_sum AS cpu_time,
       o.op_name AS op_node_name, o.direction, o.op_type AS op_node_type, m.num_calls,
       CASE WHEN o.tc_support_status = 0 THEN 1
            WHEN (SELECT value FROM dldb_meta WHERE key = 'has_ops') = '0' THEN NULL ELSE 0 END AS tc_eligible,
       iif(m.using_tc = 0 AND (m.aggr, m.op) IN (SELECT aggr_id, op FROM view_graph_ops), NULL, m.using_tc) AS using_tc,
       m.kernel_calls,
       o.tc_support_status = 0 AND o.data_type IN ('float32', 'float64') AS is_bad_data_type,
       o.data_type, o.stack_trace, o.op_id AS op_node_id, m.id AS row_id,
       (SELECT r.rank FROM ranks AS r
        WHERE r.process = o.process AND (SELECT count(*) FROM ranks) > 1) AS rank,
       o.name_grade, o.name_reason, o.shared_modules,
       iif(EXISTS (SELECT 1 FROM memory_recordings), coalesce(h.peak_bytes, 0), NULL) AS peak_bytes
FROM op_metrics AS m JOIN ops AS o ON o.id = m.op JOIN domains AS d ON d.id = o.domain
LEFT JOIN op_memory AS h ON h.op = m.op;

CREATE VIEW view_merged_ops AS
SELECT m.aggr AS aggr_id, d.name AS domain_name,
       -- Ranks begin the names of their ops: /rank_0/model/conv2d.
       iif(substr(o.op_name, 1, length(r.rank) + 7) = '/rank_' || r.rank || '/',
           substr(o.op_name, length(r.rank) + 7), o.op_name) AS op_node_name,
       o.direction, o.op_type AS op_node_type, group_concat(DISTINCT r.rank) AS ranks,
       count(DISTINCT r.rank) AS num_ranks,
       -- The columns without a sum are those of the op with the maximum.
       max(m.gpu_time_sum) AS slowest_gpu_time, r.rank AS slowest_rank, o.op_id AS op_node_id,
       round(100.0 * (max(m.gpu_time_sum) * count(*) - sum(m.gpu_time_sum)) / nullif(sum(m.gpu_time_sum), 0), 6)
           AS imbalance,
       sum(m.gpu_time_sum) AS gpu_time, sum(m.cpu_time_sum) AS cpu_time,
       sum(m.num_calls) AS num_calls, sum(m.kernel_calls) AS kernel_calls,
       CASE WHEN sum(o.tc_support_status = 0) > 0 THEN 1
            WHEN (SELECT value FROM dldb_meta WHERE key = 'has_ops') = '0' THEN NULL ELSE 0 END AS tc_eligible,
       CASE WHEN sum(m.using_tc) > 0 THEN 1
            WHEN sum((m.aggr, m.op) IN (SELECT aggr_id, op FROM view_graph_ops)) > 0 THEN NULL
            ELSE 0 END AS using_tc,
       o.data_type, o.stack_trace, o.name_grade, o.name_reason, o.shared_modules
FROM op_metrics AS m JOIN ops AS o ON o.id = m.op JOIN domains AS d ON d.id = o.domain
LEFT JOIN ranks AS r ON r.process = o.process
WHERE (SELECT count(*) FROM ranks) > 1
GROUP BY m.aggr, d.name, 3, o.direction, o.op_type;

CREATE VIEW view_op_metrics AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, o.op_id AS op_node_id, o.op_name AS op_node_name,
       o.direction, o.op_type AS op_node_type, m.num_calls,
       CASE WHEN o.tc_support_status = 0 THEN 1
            WHEN (SELECT value FROM dldb_meta WHERE key = 'has_ops') = '0' THEN NULL ELSE 0 END AS tc_eligible,
       iif(m.using_tc = 0 AND (m.aggr, m.op) IN (SELECT aggr_id, op FROM view_graph_ops), NULL, m.using_tc) AS using_tc,
       m.kernel_calls, m.cpu_time_sum,
       round(1.0 * m.cpu_time_sum / max(m.num_calls, 1), 6) AS cpu_time_avg, m.cpu_time_min,
       m.cpu_time_max, m.gpu_time_sum,
       round(1.0 * m.gpu_time_sum / max(m.num_calls, 1), 6) AS gpu_time_avg, m.gpu_time_min,
       m.gpu_time_max, m.cpu_overhead_sum,
       round(1.0 * m.cpu_overhead_sum / max(m.num_calls, 1), 6) AS cpu_overhead_avg,
       m.cpu_overhead_min, m.cpu_overhead_max, m.gpu_idle_sum,
       round(1.0 * m.gpu_idle_sum / max(m.num_calls, 1), 6) AS gpu_idle_avg, m.gpu_idle_min,
       m.gpu_idle_max, o.data_type, o.stack_trace, m.id AS row_id,
       m.gpu_time_sum + m.gpu_idle_sum AS mapped_gpu_time_sum, o.tc_fit, o.tc_fit_reason,
       m.kernel_time, m.tc_kernel_time,
       CASE o.tc_fit WHEN 1 THEN 'yes' WHEN 0 THEN 'no' ELSE 'unknown' END AS tc_fit_text,
       -- No part of a name is as long as 2,000 characters, and trimming takes the square of it.
       rtrim(o.op_name, replace(substr(o.op_name, -2000), '/', '')) AS module_path,
       o.flops AS flops_per_call,
       e.flops, e.bytes,
       round(coalesce(e.roofline_flops / 1000.0 / nullif(e.roofline_gpu_time, 0),
           CASE WHEN e.bytes IS NULL THEN e.flops / 1000.0 / nullif(e.flops_gpu_time, 0) END), 6)
           AS tflops_per_second,
       round(coalesce(1.0 * e.roofline_bytes / nullif(e.roofline_gpu_time, 0),
           1.0 * e.bytes / nullif(e.bytes_gpu_time, 0)), 6) AS gbytes_per_second,
       round(1.0 * e.roofline_flops / nullif(e.roofline_bytes, 0), 6) AS arithmetic_intensity,
       CASE WHEN 2 * e.link_gpu_time > e.gpu_time THEN 'link' WHEN e.ideal_time IS NULL OR e.ideal_time = 0 THEN NULL
            WHEN e.link_time > e.memory_time AND e.link_time > e.compute_time THEN 'link'
            WHEN e.compute_time > e.memory_time THEN 'compute' ELSE 'memory' END AS bound,
       e.ideal_time, e.ideal_gpu_time - e.ideal_time AS left_time,
       round(100.0 * e.ideal_time / nullif(e.ideal_gpu_time, 0), 6) AS peak_pct
FROM op_metrics AS m JOIN ops AS o ON o.id = m.op JOIN domains AS d ON d.id = o.domain
LEFT JOIN op_efficiency AS e ON e.aggr = m.aggr AND e.op = m.op;

CREATE VIEW view_op_type_summary AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, o.op_type AS op_node_type, count(*) AS num_nodes,
       sum(m.num_calls) AS num_calls, sum(m.cpu_time_sum) AS cpu_time_sum,
       round(1.0 * sum(m.cpu_time_sum) / max(sum(m.num_calls), 1), 6) AS cpu_time_avg,
       min(m.cpu_time_min) AS cpu_time_min, max(m.cpu_time_max) AS cpu_time_max,
       sum(m.gpu_time_sum) AS gpu_time_sum,
       round(1.0 * sum(m.gpu_time_sum) / max(sum(m.num_calls), 1), 6) AS gpu_time_avg,
       min(m.gpu_time_min) AS gpu_time_min, max(m.gpu_time_max) AS gpu_time_max,
       sum(m.cpu_overhead_sum) AS cpu_overhead_sum,
       round(1.0 * sum(m.cpu_overhead_sum) / max(sum(m.num_calls), 1), 6) AS cpu_overhead_avg,
       min(m.cpu_overhead_min) AS cpu_overhead_min, max(m.cpu_overhead_max) AS cpu_overhead_max,
       sum(m.gpu_idle_sum) AS gpu_idle_sum,
       round(1.0 * sum(m.gpu_idle_sum) / max(sum(m.num_calls), 1), 6) AS gpu_idle_avg,
       min(m.gpu_idle_min) AS gpu_idle_min, max(m.gpu_idle_max) AS gpu_idle_max,
       sum(e.flops) AS flops, sum(e.bytes) AS bytes,
       round(coalesce(sum(e.roofline_flops) / 1000.0 / nullif(sum(e.roofline_gpu_time), 0),
           CASE WHEN sum(e.bytes) IS NULL
           THEN sum(e.flops) / 1000.0 / nullif(sum(e.flops_gpu_time), 0) END), 6) AS tflops_per_second,
       round(coalesce(1.0 * sum(e.roofline_bytes) / nullif(sum(e.roofline_gpu_time), 0),
           1.0 * sum(e.bytes) / nullif(sum(e.bytes_gpu_time), 0)), 6) AS gbytes_per_second,
       round(1.0 * sum(e.roofline_flops) / nullif(sum(e.roofline_bytes), 0), 6) AS arithmetic_intensity,
       CASE WHEN 2 * sum(e.link_gpu_time) > sum(e.gpu_time) THEN 'link'
            WHEN coalesce(sum(e.ideal_time), 0) = 0 THEN NULL
            WHEN sum(e.link_time) > sum(e.memory_time) AND sum(e.link_time) > sum(e.compute_time)
            THEN 'link' WHEN sum(e.compute_time) > sum(e.memory_time) THEN 'compute'
            ELSE 'memory' END AS bound,
       sum(e.ideal_time) AS ideal_time, sum(e.ideal_gpu_time) - sum(e.ideal_time) AS left_time,
       round(100.0 * sum(e.ideal_time) / nullif(sum(e.ideal_gpu_time), 0), 6) AS peak_pct
FROM op_metrics AS m JOIN ops AS o ON o.id = m.op JOIN domains AS d ON d.id = o.domain
LEFT JOIN op_efficiency AS e ON e.aggr = m.aggr AND e.op = m.op
GROUP BY m.aggr, d.name, o.op_type;

CREATE VIEW view_kernel_summaries AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, o.op_id AS op_node_id, p.name AS kernel_name,
       p.uses_tc, sum(m.calls) AS calls, sum(m.gpu_time_sum) AS gpu_time,
       round(1.0 * sum(m.gpu_time_sum) / sum(m.calls), 6) AS avg, min(m.gpu_time_min) AS min,
       max(m.gpu_time_max) AS max, min(m.id) AS row_id
FROM kernel_metrics AS m JOIN op_kernels AS p ON p.id = m.op_kernel JOIN ops AS o ON o.id = p.op
JOIN domains AS d ON d.id = o.domain
GROUP BY m.aggr, p.op, p.name, p.uses_tc;

-- Kernels by short name, as DLProf's report counts them.
CREATE VIEW view_kernel_metrics AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, p.name AS kernel_name, o.op_id AS op_node_id,
       o.op_name AS op_node_name, o.direction, p.uses_tc, sum(m.calls) AS calls,
       sum(m.gpu_time_sum) AS gpu_time_sum,
       round(1.0 * sum(m.gpu_time_sum) / sum(m.calls), 6) AS gpu_time_avg,
       min(m.gpu_time_min) AS gpu_time_min, max(m.gpu_time_max) AS gpu_time_max,
       sum(m.api_time_sum) AS api_time_sum,
       round(1.0 * sum(m.api_time_sum) / sum(m.calls), 6) AS api_time_avg,
       min(m.api_time_min) AS api_time_min, max(m.api_time_max) AS api_time_max,
       min(m.id) AS row_id, o.stack_trace
FROM kernel_metrics AS m JOIN op_kernels AS p ON p.id = m.op_kernel JOIN ops AS o ON o.id = p.op
JOIN domains AS d ON d.id = o.domain
GROUP BY m.aggr, p.op, p.name, p.uses_tc;

-- Kernels by full name.
CREATE VIEW view_kernels_by_full_name AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, n.readable_name, n.source_ops, n.name AS kernel_name,
       n.long_name AS long_kernel_name, o.op_id AS op_node_id, o.op_name AS op_node_name, o.direction,
       p.uses_tc, m.calls, m.gpu_time_sum,
       round(1.0 * m.gpu_time_sum / m.calls, 6) AS gpu_time_avg, m.gpu_time_min, m.gpu_time_max,
       m.api_time_sum, round(1.0 * m.api_time_sum / m.calls, 6) AS api_time_avg, m.api_time_min,
       m.api_time_max, m.id AS row_id, o.stack_trace
FROM kernel_metrics AS m JOIN op_kernels AS p ON p.id = m.op_kernel JOIN ops AS o ON o.id = p.op
JOIN domains AS d ON d.id = o.domain JOIN kernel_names AS n ON n.id = p.kernel;

-- CROSS JOIN: from an op to its kernels; SQLite would look through all kernels for each op.
CREATE VIEW view_tensor_core_ops AS
SELECT m.aggr AS aggr_id, d.name AS domain_name, o.op_id AS op_node_id, o.op_name AS op_node_name,
       o.direction, o.op_type AS op_node_type,
       iif(m.using_tc = 0 AND (m.aggr, m.op) IN (SELECT aggr_id, op FROM view_graph_ops), NULL, m.using_tc) AS using_tc,
       m.kernel_time AS gpu_time,
       m.tc_kernel_time AS tc_gpu_time, m.kernel_time - m.tc_kernel_time AS non_tc_gpu_time,
       CASE WHEN (m.aggr, m.op) IN (SELECT aggr_id, op FROM view_graph_ops) THEN NULL
            WHEN m.kernel_time > 0 THEN round(100.0 * m.tc_kernel_time / m.kernel_time, 6) ELSE 0.0 END
           AS tc_utilization,
       (SELECT count(DISTINCT p.name || char(0) || p.uses_tc) FROM op_kernels AS p
            CROSS JOIN kernel_metrics AS k ON k.op_kernel = p.id
        WHERE p.op = o.id AND k.aggr = m.aggr) AS kernel_count,
       (SELECT count(DISTINCT p.name) FROM op_kernels AS p CROSS JOIN kernel_metrics AS k
            ON k.op_kernel = p.id
        WHERE p.op = o.id AND k.aggr = m.aggr AND p.uses_tc = 1) AS tc_kernel_count,
       (SELECT coalesce(group_concat(name, ', '), '') FROM (
            SELECT DISTINCT p.name AS name FROM op_kernels AS p
            CROSS JOIN kernel_metrics AS k ON k.op_kernel = p.id
            WHERE p.op = o.id AND k.aggr = m.aggr AND p.uses_tc = 1 ORDER BY p.name)) AS tc_kernel_names,
       (SELECT count(DISTINCT p.name) FROM op_kernels AS p CROSS JOIN kernel_metrics AS k
            ON k.op_kernel = p.id
        WHERE p.op = o.id AND k.aggr = m.aggr AND p.uses_tc = 0) AS non_tc_kernel_count,
       (SELECT coalesce(group_concat(name, ', '), '') FROM (
            SELECT DISTINCT p.name AS name FROM op_kernels AS p
            CROSS JOIN kernel_metrics AS k ON k.op_kernel = p.id
            WHERE p.op = o.id AND k.aggr = m.aggr AND p.uses_tc = 0 ORDER BY p.name))
           AS non_tc_kernel_names
FROM op_metrics AS m JOIN ops AS o ON o.id = m.op JOIN domains AS d ON d.id = o.domain
WHERE o.tc_support_status = 0;

CREATE VIEW view_kernel_launches AS
SELECT i.aggr AS aggr_id, d.name AS domain_name, i.iter_value, o.op_id AS op_node_id,
       o.op_name AS op_node_name, o.direction, o.op_type AS op_node_type, n.name AS kernel_name,
       n.long_name AS long_kernel_name, v.device_id, k.stream_id, k.start AS kernel_timestamp,
       k.duration AS kernel_duration, k.api_start, k.api_duration, n.uses_tc, s.grid_x, s.grid_y,
       s.grid_z, s.block_x, s.block_y, s.block_z, o.data_type, coalesce(x.input_shapes, '') AS input_shapes,
       coalesce(x.parameters, '') AS parameters, coalesce(x.output_shapes, '') AS output_shapes,
       p.pid AS process_id, k.id AS row_id, q.last_long_name AS last_long_kernel_name,
       o.stack_trace, n.readable_name
FROM iterations AS i
JOIN kernels AS k ON k.id >= i.kernel_low AND k.id < i.kernel_high
JOIN op_kernels AS q ON q.id = k.op_kernel
JOIN ops AS o ON o.id = q.op
JOIN domains AS d ON d.id = o.domain
JOIN kernel_names AS n ON n.id = k.name
JOIN devices AS v ON v.id = k.device
JOIN launch_sizes AS s ON s.id = k.size
JOIN processes AS p ON p.id = k.process
JOIN op_instances AS j ON j.id = k.instance
LEFT JOIN shape_texts AS x ON x.id = j.shapes
WHERE i.aggregated = 1;

CREATE VIEW view_iteration_kernels AS
SELECT i.aggr AS aggr_id, d.name AS domain_name, i.iter_value, o.op_name AS op_node_name,
       n.name AS kernel_name, v.device_id, k.api_start AS kernel_timestamp,
       k.duration AS kernel_duration, n.uses_tc,
       s.grid_x || ', ' || s.grid_y || ', ' || s.grid_z AS grid,
       s.block_x || ', ' || s.block_y || ', ' || s.block_z AS block,
       o.op_id AS op_node_id, k.id AS row_id
FROM iterations AS i
JOIN kernels AS k ON k.id >= i.kernel_low AND k.id < i.kernel_high
JOIN op_kernels AS q ON q.id = k.op_kernel
JOIN ops AS o ON o.id = q.op
JOIN domains AS d ON d.id = o.domain
JOIN kernel_names AS n ON n.id = k.name
JOIN devices AS v ON v.id = k.device
JOIN launch_sizes AS s ON s.id = k.size
WHERE i.aggregated = 1;

CREATE VIEW view_iteration_op_kernels AS
SELECT aggr_id, domain_name, iter_value, op_node_id, kernel_name, device_id, kernel_timestamp,
       kernel_duration, uses_tc, grid, block, row_id
FROM view_iteration_kernels;

CREATE VIEW view_iteration_ops AS
SELECT i.aggr AS aggr_id, d.name AS domain_name, i.iter_value, o.op_name AS op_node_name, o.direction,
       o.op_type AS op_node_type, count(*) AS total_count, sum(q.uses_tc) AS tc_count,
       sum(k.duration) AS total_gpu_time, sum(CASE WHEN q.uses_tc = 1 THEN k.duration ELSE 0 END) AS tc_gpu_time,
       o.data_type, o.stack_trace, o.op_id AS op_node_id,
       (SELECT min(j.start) FROM op_instances AS j
        WHERE j.op = o.id AND j.start >= i.start AND j.start < i.stop) AS op_start
FROM iterations AS i
JOIN kernels AS k ON k.id >= i.kernel_low AND k.id < i.kernel_high
JOIN op_kernels AS q ON q.id = k.op_kernel
JOIN ops AS o ON o.id = q.op
JOIN domains AS d ON d.id = o.domain
WHERE i.aggregated = 1 AND i.kernel_high - i.kernel_low <= 20000
GROUP BY i.aggr, d.name, i.iter_value, o.id
UNION ALL
SELECT i.aggr, d.name, i.iter_value, o.op_name, o.direction, o.op_type, g.kernels, g.tc_kernels,
       g.gpu_time, g.tc_gpu_time, o.data_type, o.stack_trace, o.op_id,
       (SELECT min(j.start) FROM op_instances AS j
        WHERE j.op = o.id AND j.start >= i.start AND j.start < i.stop)
FROM iterations AS i
JOIN iteration_op_times AS g ON g.aggr = i.aggr AND g.iter_value = i.iter_value
JOIN ops AS o ON o.id = g.op
JOIN domains AS d ON d.id = o.domain
WHERE i.aggregated = 1;

CREATE VIEW view_group_metrics AS
SELECT g.aggr AS aggr_id, d.name AS domain_name, g.group_name, g.num_calls, g.num_tc_eligible_ops,
       g.num_ops_using_tc, g.cpu_time_sum, g.cpu_time_avg, g.cpu_time_min, g.cpu_time_max,
       g.gpu_time_sum, g.gpu_time_avg, g.gpu_time_min, g.gpu_time_max, g.cpu_overhead_sum,
       g.cpu_overhead_avg, g.cpu_overhead_min, g.cpu_overhead_max, g.gpu_idle_sum, g.gpu_idle_avg,
       g.gpu_idle_min, g.gpu_idle_max
FROM group_metrics AS g JOIN domains AS d ON d.id = g.domain;

-- Both parts have the same types of columns: SQLite then computes only those that a query asks for.
CREATE VIEW view_group_ops AS
SELECT g.aggr AS aggr_id, d.name AS domain_name, 1 AS row_type, g.group_name AS row_full_id,
       g.group_name AS row_full_name,
       CASE WHEN g.group_name = '/' THEN ''
            ELSE replace(rtrim(g.group_name, '/'),
                         rtrim(rtrim(g.group_name, '/'),
                               replace(substr(rtrim(g.group_name, '/'), -2000), '/', '')), '')
            END AS row_trimmed_name,
       g.level, g.num_calls AS num_op_instances,
       iif((SELECT value FROM dldb_meta WHERE key = 'has_ops') = '0', NULL, g.num_tc_eligible_ops)
           AS num_supported_leaf_ops,
       g.num_ops_using_tc AS num_tc_leaf_ops, g.cpu_time_sum, g.gpu_time_sum, g.cpu_overhead_sum,
       g.gpu_idle_sum, CAST(NULL AS TEXT) AS op_direction, CAST(NULL AS INTEGER) AS op_rank,
       iif(EXISTS (SELECT 1 FROM memory_recordings), coalesce(h.peak_bytes, 0), NULL) AS peak_bytes
FROM group_metrics AS g JOIN domains AS d ON d.id = g.domain
LEFT JOIN group_memory AS h ON h.group_name = g.group_name AND g.domain = 1
WHERE g.group_name <> '_CompleteModel_'
UNION ALL
SELECT m.aggr, d.name, 2, o.op_id, o.op_name,
       replace(o.op_name, rtrim(o.op_name, replace(substr(o.op_name, -2000), '/', '')), ''),
       CAST(1 + length(o.op_name) - length(replace(o.op_name, '/', '')) AS INTEGER), m.num_calls,
       CASE WHEN o.tc_support_status = 0 THEN 1
            WHEN (SELECT value FROM dldb_meta WHERE key = 'has_ops') = '0' THEN NULL ELSE 0 END,
       CAST(iif(m.using_tc = 0 AND (m.aggr, m.op) IN (SELECT aggr_id, op FROM view_graph_ops), NULL, m.using_tc) AS INTEGER),
       m.cpu_time_sum, m.gpu_time_sum, m.cpu_overhead_sum,
       m.gpu_idle_sum, o.direction,
       (SELECT r.rank FROM ranks AS r
        WHERE r.process = o.process AND (SELECT count(*) FROM ranks) > 1),
       iif(EXISTS (SELECT 1 FROM memory_recordings), coalesce(h.peak_bytes, 0), NULL)
FROM op_metrics AS m JOIN ops AS o ON o.id = m.op JOIN domains AS d ON d.id = o.domain
LEFT JOIN op_memory AS h ON h.op = m.op;

CREATE VIEW view_op_instances AS
SELECT d.name AS domain_name, o.op_id AS op_node_id, j.start AS start_time, j.stop AS stop_time,
       j.cpu_time, j.cpu_overhead, j.gpu_time, j.gpu_idle, coalesce(x.input_shapes, '') AS input_shapes,
       coalesce(x.output_shapes, '') AS output_shapes, t.tid AS thread_id, p.pid AS process_id,
       j.id AS row_id
FROM op_instances AS j JOIN ops AS o ON o.id = j.op JOIN domains AS d ON d.id = o.domain
JOIN threads AS t ON t.id = j.thread JOIN processes AS p ON p.id = t.process
LEFT JOIN shape_texts AS x ON x.id = j.shapes;

CREATE VIEW view_api_calls AS
SELECT n.name AS api_name, o.op_id AS op_node_id, c.start AS api_start, c.duration AS api_duration,
       p.pid AS process_id, t.tid AS thread_id, c.correlation_id, c.id AS row_id
FROM api_calls AS c JOIN api_names AS n ON n.id = c.name JOIN ops AS o ON o.id = c.op
JOIN threads AS t ON t.id = c.thread JOIN processes AS p ON p.id = t.process;

CREATE VIEW view_memory_ops AS
SELECT CASE WHEN m.is_copy THEN 'memcpy' ELSE 'memset' END AS kind, coalesce(n.name, '') AS name,
       m.copy_kind, nullif(m.bytes, -1) AS bytes, o.op_id AS op_node_id, v.device_id, m.stream_id, m.start AS timestamp,
       m.duration, m.api_start, m.api_duration, p.pid AS process_id, m.id AS row_id,
       CASE m.host_kind WHEN 0 THEN 'pageable' WHEN 1 THEN 'pinned' WHEN -1 THEN '' ELSE 'other' END
           AS host_memory
FROM memory_ops AS m JOIN ops AS o ON o.id = m.op JOIN devices AS v ON v.id = m.device
JOIN processes AS p ON p.id = m.process LEFT JOIN api_names AS n ON n.id = m.name;

CREATE VIEW view_graph_launches AS
SELECT o.op_id AS op_node_id, o.op_name AS op_node_name, v.device_id, g.stream_id, g.start AS timestamp,
       g.duration, g.api_start, g.api_duration, p.pid AS process_id, g.id AS row_id
FROM graph_launches AS g JOIN ops AS o ON o.id = g.op JOIN devices AS v ON v.id = g.device
JOIN processes AS p ON p.id = g.process;

CREATE VIEW view_gpu_work AS
SELECT 'kernel' AS kind, n.name, o.op_id AS op_node_id, v.device_id, k.stream_id,
       k.start AS timestamp, k.duration, k.api_start, k.api_duration, p.pid AS process_id,
       k.id AS row_id
FROM kernels AS k JOIN kernel_names AS n ON n.id = k.name JOIN op_kernels AS q ON q.id = k.op_kernel
JOIN ops AS o ON o.id = q.op JOIN devices AS v ON v.id = k.device JOIN processes AS p ON p.id = k.process
UNION ALL
SELECT kind, name, op_node_id, device_id, stream_id, timestamp, duration, api_start, api_duration,
       process_id, row_id
FROM view_memory_ops
UNION ALL
SELECT 'graph', '', op_node_id, device_id, stream_id, timestamp, duration, api_start, api_duration,
       process_id, row_id
FROM view_graph_launches;

CREATE VIEW view_domain_kernels AS
SELECT d.name AS domain_name, x.by_time, o.op_id AS op_node_id, o.op_name AS op_node_name,
       n.name AS kernel_name, k.start AS kernel_timestamp, k.duration AS kernel_duration, n.uses_tc,
       k.id AS row_id
FROM domain_kernels AS x JOIN domains AS d ON d.id = x.domain JOIN kernels AS k ON k.id = x.kernel
JOIN kernel_names AS n ON n.id = k.name JOIN op_instances AS j ON j.id = x.instance
JOIN ops AS o ON o.id = j.op;

CREATE VIEW view_domain_ops AS
SELECT domain_name, op_node_id, op_node_name, count(*) AS kernel_calls_by_time,
       sum(1 - by_time) AS kernel_calls_by_thread, sum(kernel_duration) AS kernel_time_by_time,
       sum(CASE WHEN by_time THEN 0 ELSE kernel_duration END) AS kernel_time_by_thread
FROM view_domain_kernels GROUP BY domain_name, op_node_id;

CREATE VIEW view_marks AS
SELECT m.domain AS domain_name, m.name AS mark_name, m.time AS timestamp, t.tid AS thread_id,
       p.pid AS process_id, m.id AS row_id
FROM marks AS m JOIN threads AS t ON t.id = m.thread JOIN processes AS p ON p.id = t.process;

CREATE VIEW view_annotations AS
SELECT a.domain AS domain_name, a.name AS range_name, a.category, a.payload, a.start AS start_time,
       a.stop AS stop_time, t.tid AS thread_id, t.name AS thread_name, a.id AS row_id
FROM annotations AS a LEFT JOIN threads AS t ON t.id = a.thread;

CREATE VIEW view_threads AS
SELECT t.tid AS thread_id, t.name AS thread_name, p.pid AS process_id, t.id AS row_id
FROM threads AS t JOIN processes AS p ON p.id = t.process;

CREATE VIEW view_warnings AS
SELECT code, message, count, share, example FROM warnings;

CREATE VIEW view_profile_info AS
SELECT key, value FROM dldb_meta;

CREATE VIEW view_gpu_memories AS
SELECT id, memory_bytes AS total, memory_used_bytes AS used, device_id, name AS gpu_name,
       memory_before_bytes AS used_before, busy_pct AS nvml_utilization, memory_source AS source,
       memory_reason AS reason
FROM devices;

CREATE VIEW view_model_settings AS
SELECT key, value, source, reason, id AS row_id FROM model_config;

CREATE VIEW view_ranks AS
SELECT m.aggr AS aggr_id, r.rank, r.host AS host_name, p.pid AS process_id, v.device_id,
       v.host_device_id, r.source_file, m.gpu_utilization, m.busy AS busy_ns, m.computing AS computing_ns,
       m.communication AS communication_ns, m.exposed_communication AS exposed_communication_ns,
       m.exposed_waiting AS exposed_waiting_ns,
       m.exposed_communication - m.exposed_waiting AS exposed_transfer_ns,
       m.imbalance AS imbalance_pct, m.kernels AS kernel_count, m.collectives AS collective_count,
       m.unmatched AS unmatched_count, m.waiting AS waiting_ns,
       round(100.0 * m.waiting / max(w.stop - w.start, 1), 6) AS waiting_pct,
       m.times_last, m.kept_waiting AS kept_waiting_ns, r.clock_offset AS clock_offset_ns,
       r.clock_correction AS clock_correction_ns, r.clock_residual AS clock_residual_ns, r.aligned_by,
       r.id AS row_id
FROM rank_metrics AS m JOIN ranks AS r ON r.id = m.rank JOIN processes AS p ON p.id = r.process
LEFT JOIN devices AS v ON v.id = r.device
JOIN (SELECT aggr, min(start) AS start, max(stop) AS stop FROM iterations WHERE aggregated = 1
      GROUP BY aggr) AS w ON w.aggr = m.aggr;

CREATE VIEW view_collectives AS
SELECT i.aggr AS aggr_id, i.iter_value, c.communicator, c.sequence, c.kind AS collective_name,
       n.name AS kernel_name, r.rank, c.num_ranks, c.bytes, k.start AS start_time, k.duration,
       c.waiting AS waiting_ns, c.kept_waiting AS kept_waiting_ns, k.api_start, v.device_id,
       k.stream_id, c.kernel AS row_id,
       CASE WHEN c.bytes IS NOT NULL THEN ''
            WHEN c.kind IN ('AllReduce', 'ReduceScatter', 'Reduce')
            THEN 'no range around the call has the size of its tensors'
            ELSE 'neither the name of the kernel nor a range has the data type'
       END AS bytes_unknown
FROM iterations AS i
JOIN collectives AS c ON c.kernel >= i.kernel_low AND c.kernel < i.kernel_high
LEFT JOIN kernels AS k ON k.id = c.kernel
LEFT JOIN kernel_names AS n ON n.id = k.name
LEFT JOIN ranks AS r ON r.id = c.rank
LEFT JOIN devices AS v ON v.id = k.device
WHERE i.aggregated = 1;

CREATE VIEW view_critical_path AS
SELECT aggr AS aggr_id, place, kind AS path_kind, owner AS path_owner, time AS path_ns,
       share AS share_pct
FROM critical_path;

CREATE VIEW view_op_sensitivity AS
SELECT aggr AS aggr_id, place, op_id, direction, own_time AS own_ns,
       path_time AS path_ns, gain_ratio AS step_ns_per_own_ns, slack AS slack_ns
FROM op_sensitivity;

CREATE VIEW view_owners AS
SELECT w.aggr AS aggr_id, w.place AS owner, w.class AS owner_class, w.reason AS owner_reason,
       o.op_id AS op_node_id, o.op_name AS op_node_name, coalesce(o.direction, '') AS direction,
       coalesce(o.op_type, '') AS op_node_type,
       coalesce(nullif(rtrim(o.op_name, replace(substr(o.op_name, -2000), '/', '')), ''),
                '/' || n.name || '/', '/') AS module_path,
       w.time AS owned_time, w.samples AS owned_samples,
       round(1.0 * w.time / w.samples, 6) AS owned_step_time,
       round(100.0 * w.time / nullif(a.total, 0), 6) AS owned_pct
FROM owners AS w
JOIN (SELECT aggr, sum(time) AS total FROM owners GROUP BY aggr) AS a ON a.aggr = w.aggr
LEFT JOIN ops AS o ON o.id = w.op
LEFT JOIN range_names AS n ON n.id = w.range_name;

CREATE VIEW view_owner_sums AS
WITH RECURSIVE by_op (aggr, op, range_name, time, samples) AS MATERIALIZED (
    SELECT aggr, op, range_name, sum(time), max(samples) FROM owners GROUP BY aggr, op, range_name
),
modules (aggr_id, path, owned_time, samples) AS (
    SELECT w.aggr,
           coalesce(nullif(rtrim(o.op_name, replace(substr(o.op_name, -2000), '/', '')), ''),
                    '/' || n.name || '/', '/') AS module_path,
           sum(w.time), max(w.samples)
    FROM by_op AS w LEFT JOIN ops AS o ON o.id = w.op LEFT JOIN range_names AS n ON n.id = w.range_name
    GROUP BY w.aggr, module_path
    UNION ALL
    SELECT aggr_id,
           coalesce(nullif(rtrim(rtrim(path, '/'),
                                 replace(substr(rtrim(path, '/'), -2000), '/', '')), ''), '/'),
           owned_time, samples
    FROM modules WHERE path <> '/'
),
sums (aggr_id, rolled_up_by, name, owned_time, samples) AS (
    SELECT aggr, 'class', class, sum(time), max(samples) FROM owners GROUP BY aggr, class
    UNION ALL
    SELECT w.aggr, 'op type', coalesce(o.op_type, ''), sum(w.time), max(w.samples)
    FROM by_op AS w LEFT JOIN ops AS o ON o.id = w.op GROUP BY w.aggr, 3
    UNION ALL
    SELECT aggr_id, 'module', path, sum(owned_time), max(samples)
    FROM modules GROUP BY aggr_id, path
)
SELECT aggr_id, rolled_up_by, name AS owner_name, owned_time,
       round(1.0 * owned_time / samples, 6) AS owned_step_time,
       round(100.0 * owned_time / nullif(a.total, 0), 6) AS owned_pct
FROM sums
JOIN (SELECT aggr, sum(time) AS total FROM by_op GROUP BY aggr) AS a ON a.aggr = aggr_id;

CREATE VIEW view_rank_iterations AS
SELECT i.aggr AS aggr_id, i.iter_value, r.rank, count(*) AS collective_count,
       sum(c.waiting) AS waiting_ns, sum(c.kept_waiting) AS kept_waiting_ns
FROM iterations AS i
JOIN collectives AS c ON c.kernel >= i.kernel_low AND c.kernel < i.kernel_high
JOIN ranks AS r ON r.id = c.rank
WHERE i.aggregated = 1 GROUP BY i.aggr, i.iter_value, r.rank;

CREATE VIEW view_memory_recordings AS
SELECT id AS recording, device AS memory_device, source AS memory_source, source_file,
       clock_offset, events AS memory_events, peak_allocated AS peak_allocated_bytes,
       nullif(peak_event, -1) AS peak_event, peak_reserved AS peak_reserved_bytes,
       end_allocated AS end_allocated_bytes, end_active AS end_active_bytes,
       end_reserved AS end_reserved_bytes, peak_active AS peak_active_bytes, failures, failed_bytes
FROM memory_recordings;

CREATE VIEW view_memory_growth AS
SELECT recording, name AS owner, bytes AS growth_bytes, steps AS growth_steps FROM memory_growth;

CREATE VIEW view_memory_changes AS
SELECT recording, change, peak_allocated AS peak_allocated_bytes FROM memory_changes;

CREATE VIEW view_memory_allocations AS
SELECT a.recording, a.id AS allocation, a.bytes AS allocation_bytes,
       nullif(a.alloc_event, -1) AS alloc_event, nullif(a.free_event, -1) AS free_event,
       k.meaning AS memory_kind, e.meaning AS kind_evidence, p.meaning AS memory_phase,
       nullif(a.step, -1) AS memory_step, m.name AS memory_module, o.name AS memory_op,
       a.stack AS memory_stack,
       a.alloc_event <= r.peak_event
           AND (a.free_event = -1 OR a.free_event > r.peak_event) AS is_at_peak
FROM memory_allocations AS a
JOIN memory_recordings AS r ON r.id = a.recording
JOIN memory_codes AS k ON k.name = 'kind' AND k.code = a.kind
JOIN memory_codes AS e ON e.name = 'evidence' AND e.code = a.evidence
JOIN memory_codes AS p ON p.name = 'phase' AND p.code = a.phase
JOIN memory_names AS m ON m.recording = a.recording AND m.number = a.module
JOIN memory_names AS o ON o.recording = a.recording AND o.number = a.op;

CREATE VIEW view_memory_peak AS
SELECT recording, memory_kind, memory_module, memory_op, memory_phase,
       sum(allocation_bytes) AS bytes_at_peak, count(*) AS allocations
FROM view_memory_allocations WHERE is_at_peak
GROUP BY recording, memory_kind, memory_module, memory_op, memory_phase;

CREATE VIEW view_memory_steps AS
SELECT recording, step AS memory_step, first_event, peak_event,
       peak_allocated AS peak_allocated_bytes
FROM memory_steps;

CREATE VIEW view_texts AS
SELECT text, made_of FROM texts;

CREATE VIEW view_op_efficiency AS
SELECT e.aggr AS aggr_id, d.name AS domain_name, o.op_id AS op_node_id, o.op_name AS op_node_name,
       o.direction, o.op_type AS op_node_type, e.calls AS num_calls, e.gpu_time AS gpu_time_sum,
       e.known_calls, e.known_gpu_time, e.flops, e.matrix_flops, e.bytes,
       round(coalesce(e.roofline_flops / 1000.0 / nullif(e.roofline_gpu_time, 0),
           CASE WHEN e.bytes IS NULL THEN e.flops / 1000.0 / nullif(e.flops_gpu_time, 0) END), 6)
           AS tflops_per_second,
       round(coalesce(1.0 * e.roofline_bytes / nullif(e.roofline_gpu_time, 0),
           1.0 * e.bytes / nullif(e.bytes_gpu_time, 0)), 6) AS gbytes_per_second,
       round(1.0 * e.roofline_flops / nullif(e.roofline_bytes, 0), 6) AS arithmetic_intensity,
       CASE WHEN 2 * e.link_gpu_time > e.gpu_time THEN 'link' WHEN e.ideal_time IS NULL OR e.ideal_time = 0 THEN NULL
            WHEN e.link_time > e.memory_time AND e.link_time > e.compute_time THEN 'link'
            WHEN e.compute_time > e.memory_time THEN 'compute' ELSE 'memory' END AS bound,
       e.ideal_time, e.ideal_gpu_time - e.ideal_time AS left_time,
       round(100.0 * e.ideal_time / nullif(e.ideal_gpu_time, 0), 6) AS peak_pct,
       round(100.0 * e.matrix_ideal_time / nullif(e.flops_gpu_time, 0), 6) AS flops_peak_pct,
       round(100.0 * e.roofline_bytes / nullif(e.roofline_gpu_time, 0) / w.rate, 6) AS bandwidth_peak_pct,
       round(100.0 * e.known_gpu_time / nullif(e.gpu_time, 0), 6) AS known_pct,
       (SELECT max(u.precision) FROM op_units AS x JOIN cost_units AS u ON u.id = x.unit
        WHERE x.aggr = e.aggr AND x.op = e.op AND u.is_matrix = 1) AS precision,
       coalesce((SELECT max(u.reason) FROM op_units AS x JOIN cost_units AS u ON u.id = x.unit
                 WHERE x.aggr = e.aggr AND x.op = e.op), '') AS unknown_reason,
       o.stack_trace, o.id AS row_id,
       CASE WHEN coalesce(e.ideal_time <= e.ideal_gpu_time, 1) THEN ''
            WHEN e.link_time > e.memory_time AND e.link_time > e.compute_time
            THEN 'its copies went over a faster link than the table of peaks has'
            WHEN e.compute_time > e.memory_time
            THEN 'its kernels need fewer operations than were counted: Winograd, Fourier or a mask'
            ELSE 'its tensors fit the cache, which is faster than the memory' END AS peak_reason
FROM op_efficiency AS e JOIN ops AS o ON o.id = e.op JOIN domains AS d ON d.id = o.domain
LEFT JOIN peak_rates AS w ON w.aggr = e.aggr AND w.name = 'bandwidth';

CREATE VIEW view_op_type_efficiency AS
SELECT e.aggr AS aggr_id, d.name AS domain_name, o.op_type AS op_node_type, count(*) AS num_nodes,
       sum(e.calls) AS num_calls, sum(e.gpu_time) AS gpu_time_sum,
       sum(e.known_gpu_time) AS known_gpu_time, sum(e.flops) AS flops,
       sum(e.matrix_flops) AS matrix_flops, sum(e.bytes) AS bytes,
       round(coalesce(sum(e.roofline_flops) / 1000.0 / nullif(sum(e.roofline_gpu_time), 0),
           CASE WHEN sum(e.bytes) IS NULL
           THEN sum(e.flops) / 1000.0 / nullif(sum(e.flops_gpu_time), 0) END), 6) AS tflops_per_second,
       round(coalesce(1.0 * sum(e.roofline_bytes) / nullif(sum(e.roofline_gpu_time), 0),
           1.0 * sum(e.bytes) / nullif(sum(e.bytes_gpu_time), 0)), 6) AS gbytes_per_second,
       round(1.0 * sum(e.roofline_flops) / nullif(sum(e.roofline_bytes), 0), 6) AS arithmetic_intensity,
       CASE WHEN 2 * sum(e.link_gpu_time) > sum(e.gpu_time) THEN 'link'
            WHEN coalesce(sum(e.ideal_time), 0) = 0 THEN NULL
            WHEN sum(e.link_time) > sum(e.memory_time) AND sum(e.link_time) > sum(e.compute_time)
            THEN 'link' WHEN sum(e.compute_time) > sum(e.memory_time) THEN 'compute'
            ELSE 'memory' END AS bound,
       sum(e.ideal_time) AS ideal_time, sum(e.ideal_gpu_time) - sum(e.ideal_time) AS left_time,
       round(100.0 * sum(e.ideal_time) / nullif(sum(e.ideal_gpu_time), 0), 6) AS peak_pct,
       round(100.0 * sum(e.known_gpu_time) / nullif(sum(e.gpu_time), 0), 6) AS known_pct
FROM op_efficiency AS e JOIN ops AS o ON o.id = e.op JOIN domains AS d ON d.id = o.domain
GROUP BY e.aggr, d.name, o.op_type;

CREATE VIEW view_group_efficiency AS
SELECT e.aggr AS aggr_id, d.name AS domain_name, e.group_name, e.ops AS num_nodes,
       e.calls AS num_calls, e.gpu_time AS gpu_time_sum, e.known_gpu_time, e.flops,
       e.matrix_flops, e.bytes,
       round(coalesce(e.roofline_flops / 1000.0 / nullif(e.roofline_gpu_time, 0),
           CASE WHEN e.bytes IS NULL THEN e.flops / 1000.0 / nullif(e.flops_gpu_time, 0) END), 6)
           AS tflops_per_second,
       round(coalesce(1.0 * e.roofline_bytes / nullif(e.roofline_gpu_time, 0),
           1.0 * e.bytes / nullif(e.bytes_gpu_time, 0)), 6) AS gbytes_per_second,
       round(1.0 * e.roofline_flops / nullif(e.roofline_bytes, 0), 6) AS arithmetic_intensity,
       CASE WHEN 2 * e.link_gpu_time > e.gpu_time THEN 'link'
            WHEN coalesce(e.ideal_time, 0) = 0 THEN NULL
            WHEN e.link_time > e.memory_time AND e.link_time > e.compute_time
            THEN 'link' WHEN e.compute_time > e.memory_time THEN 'compute'
            ELSE 'memory' END AS bound,
       e.ideal_time, e.ideal_gpu_time - e.ideal_time AS left_time,
       round(100.0 * e.ideal_time / nullif(e.ideal_gpu_time, 0), 6) AS peak_pct,
       round(100.0 * e.known_gpu_time / nullif(e.gpu_time, 0), 6) AS known_pct
FROM group_efficiency AS e JOIN domains AS d ON d.id = e.domain;

CREATE VIEW view_iteration_efficiency AS
SELECT e.aggr AS aggr_id, d.name AS domain_name, e.iter_value, e.duration,
       e.calls AS num_calls, e.gpu_time AS gpu_time_sum, e.known_gpu_time, e.flops, e.matrix_flops,
       e.bytes,
       round(coalesce(e.roofline_flops / 1000.0 / nullif(e.roofline_gpu_time, 0),
           CASE WHEN e.bytes IS NULL THEN e.flops / 1000.0 / nullif(e.flops_gpu_time, 0) END), 6)
           AS tflops_per_second,
       round(coalesce(1.0 * e.roofline_bytes / nullif(e.roofline_gpu_time, 0),
           1.0 * e.bytes / nullif(e.bytes_gpu_time, 0)), 6) AS gbytes_per_second,
       round(1.0 * e.roofline_flops / nullif(e.roofline_bytes, 0), 6) AS arithmetic_intensity,
       CASE WHEN 2 * e.link_gpu_time > e.gpu_time THEN 'link' WHEN e.ideal_time IS NULL OR e.ideal_time = 0 THEN NULL
            WHEN e.link_time > e.memory_time AND e.link_time > e.compute_time THEN 'link'
            WHEN e.compute_time > e.memory_time THEN 'compute' ELSE 'memory' END AS bound,
       e.ideal_time, e.ideal_gpu_time - e.ideal_time AS left_time,
       round(100.0 * e.ideal_time / nullif(e.ideal_gpu_time, 0), 6) AS peak_pct,
       round(100.0 * e.known_gpu_time / nullif(e.gpu_time, 0), 6) AS known_pct,
       round(e.model_flops / 1000.0 / e.wall / nullif(e.gpus, 0), 6) AS tflops_per_second_per_gpu,
       CASE WHEN 10 * e.matrix_known_gpu_time >= 8 * e.gpu_time THEN
       round(100.0 * nullif(e.model_ideal_time, 0) / e.wall / nullif(e.gpus, 0), 6) END AS mfu,
       CASE WHEN 10 * e.matrix_known_gpu_time >= 8 * e.gpu_time THEN
       round(100.0 * nullif(e.hardware_ideal_time, 0) / e.wall / nullif(e.gpus, 0), 6) END AS hfu,
       round(100.0 * nullif(e.model_ideal_time, 0) / e.wall / nullif(e.gpus, 0), 6) AS mfu_at_least
FROM (
    -- The GPU runs the work of an iteration later and longer if the program launched it much faster.
    SELECT t.*, i.stop - i.start AS duration, m.gpus,
           iif(t.hardware_ideal_time > m.gpus * (i.stop - i.start)
               OR l.start + l.duration - k.start > 1.5 * (i.stop - i.start), NULL, nullif(i.stop - i.start, 0)) AS wall
    FROM iteration_efficiency AS t JOIN model_efficiency AS m ON m.aggr = t.aggr
    JOIN iterations AS i ON i.aggr = t.aggr AND i.iter_value = t.iter_value
    LEFT JOIN kernels AS k ON k.id = i.kernel_low AND i.kernel_high > i.kernel_low
    LEFT JOIN kernels AS l ON l.id = i.kernel_high - 1 AND i.kernel_high > i.kernel_low
) AS e JOIN domains AS d ON d.id = 1;

CREATE VIEW view_model_efficiency AS
WITH late AS (
    -- Aggregations whose work ran after their iterations: how long it took is not known from these.
    SELECT i.aggr FROM iterations AS i
    LEFT JOIN kernels AS k ON k.id = i.kernel_low AND i.kernel_high > i.kernel_low
    LEFT JOIN kernels AS l ON l.id = i.kernel_high - 1 AND i.kernel_high > i.kernel_low
    WHERE i.aggregated GROUP BY i.aggr
    HAVING max(l.start + l.duration) - min(k.start) > (1.1 + 1.0 / count(*)) * (max(i.stop) - min(i.start))
), steps AS (
    -- Steps whose utilization is unknown because the program launched them too fast count as the highest ones.
    SELECT t.aggr, iif(t.model_ideal_time > 0, coalesce(v.mfu_at_least, 1e9), NULL) AS mfu_at_least,
           iif(t.model_ideal_time > 0 AND 10 * t.matrix_known_gpu_time >= 8 * t.gpu_time, coalesce(v.mfu, 1e9), NULL) AS mfu,
           iif(t.hardware_ideal_time > 0 AND 10 * t.matrix_known_gpu_time >= 8 * t.gpu_time, coalesce(v.hfu, 1e9), NULL) AS hfu
    FROM iteration_efficiency AS t
    JOIN iterations AS i ON i.aggr = t.aggr AND i.iter_value = t.iter_value
    JOIN view_iteration_efficiency AS v ON v.aggr_id = t.aggr AND v.iter_value = t.iter_value
    WHERE i.kind = 'iteration'
)
SELECT m.aggr AS aggr_id, d.name AS domain_name, t.wall_time, m.gpus AS used_gpu_count,
       iif(m.hfu > 100 OR m.mfu_at_least > 100 OR m.aggr IN (SELECT aggr FROM late), NULL, m.mfu) AS mfu,
       iif(m.mfu_at_least > 100 OR m.aggr IN (SELECT aggr FROM late), NULL, m.mfu_at_least) AS mfu_at_least,
       iif(m.hfu > 100 OR m.aggr IN (SELECT aggr FROM late), NULL, m.hfu) AS hfu,
       m.model_flops, m.hardware_flops,
       iif(m.mfu_at_least > 100 OR m.aggr IN (SELECT aggr FROM late), NULL,
           round(m.model_flops / 1000.0 / nullif(t.wall_time, 0) / nullif(m.gpus, 0), 6))
           AS tflops_per_second_per_gpu,
       sum(e.gpu_time) AS gpu_time_sum, sum(e.known_gpu_time) AS known_gpu_time,
       sum(e.flops) AS flops, sum(e.matrix_flops) AS matrix_flops, sum(e.bytes) AS bytes,
       round(coalesce(sum(e.roofline_flops) / 1000.0 / nullif(sum(e.roofline_gpu_time), 0),
           CASE WHEN sum(e.bytes) IS NULL
           THEN sum(e.flops) / 1000.0 / nullif(sum(e.flops_gpu_time), 0) END), 6) AS tflops_per_second,
       round(coalesce(1.0 * sum(e.roofline_bytes) / nullif(sum(e.roofline_gpu_time), 0),
           1.0 * sum(e.bytes) / nullif(sum(e.bytes_gpu_time), 0)), 6) AS gbytes_per_second,
       round(1.0 * sum(e.roofline_flops) / nullif(sum(e.roofline_bytes), 0), 6) AS arithmetic_intensity,
       sum(e.ideal_time) AS ideal_time, sum(e.ideal_gpu_time) - sum(e.ideal_time) AS left_time,
       sum(e.compute_time) AS compute_time, sum(e.memory_time) AS memory_time,
       sum(e.link_time) AS link_time,
       round(100.0 * sum(e.ideal_time) / nullif(sum(e.ideal_gpu_time), 0), 6) AS peak_pct,
       round(100.0 * sum(e.known_gpu_time) / nullif(sum(e.gpu_time), 0), 6) AS known_pct,
       (SELECT iif(avg(x.mfu) <= 100, round(avg(x.mfu), 6), NULL) FROM (
            SELECT s.mfu, row_number() OVER (ORDER BY s.mfu) AS place, count(*) OVER () AS many
            FROM steps AS s WHERE s.aggr = m.aggr AND s.mfu IS NOT NULL) AS x
        WHERE x.place IN ((x.many + 1) / 2, (x.many + 2) / 2)) AS median_step_mfu,
       (SELECT iif(avg(x.hfu) <= 100, round(avg(x.hfu), 6), NULL) FROM (
            SELECT s.hfu, row_number() OVER (ORDER BY s.hfu) AS place, count(*) OVER () AS many
            FROM steps AS s WHERE s.aggr = m.aggr AND s.hfu IS NOT NULL) AS x
        WHERE x.place IN ((x.many + 1) / 2, (x.many + 2) / 2)) AS median_step_hfu,
       (SELECT iif(avg(x.mfu_at_least) <= 100, round(avg(x.mfu_at_least), 6), NULL) FROM (
            SELECT s.mfu_at_least, row_number() OVER (ORDER BY s.mfu_at_least) AS place, count(*) OVER () AS many
            FROM steps AS s WHERE s.aggr = m.aggr AND s.mfu_at_least IS NOT NULL) AS x
        WHERE x.place IN ((x.many + 1) / 2, (x.many + 2) / 2)) AS median_step_mfu_at_least
FROM model_efficiency AS m JOIN domains AS d ON d.id = 1
JOIN model_metrics AS t ON t.aggr = m.aggr AND t.domain = 1
JOIN op_efficiency AS e ON e.aggr = m.aggr
GROUP BY m.aggr;

CREATE VIEW view_op_units AS
SELECT x.aggr AS aggr_id, d.name AS domain_name, o.op_id AS op_node_id, u.name AS unit_name,
       u.input_shapes, u.output_shape, x.calls, u.flops AS flops_per_call, u.bytes AS bytes_per_call,
       u.is_matrix, u.precision, u.reason AS unknown_reason, u.id AS row_id
FROM op_units AS x JOIN cost_units AS u ON u.id = x.unit JOIN ops AS o ON o.id = x.op
JOIN domains AS d ON d.id = o.domain;

CREATE VIEW view_peak_rates AS
SELECT aggr AS aggr_id, name AS rate_name, rate, gpu_name, is_given FROM peak_rates;

CREATE VIEW view_advice AS
SELECT aggr AS aggr_id, place, advice AS advice_name, status, severity, gain_ns, gain_pct,
       most_ns, most_pct, gain_source,
       gain_bound, certainty, problem,
       recommendation, reasoning, needs, frameworks, drill_down, evidence, proof_query, proof_column,
       proof_value, id AS row_id
FROM advice;

CREATE VIEW view_launch_keys AS
SELECT i.aggr AS aggr_id, i.iter_value, k.id AS row_id, k.op_kernel AS op_key, k.name AS name_key,
       k.size AS size_key, k.device AS device_key, k.api_start, k.api_duration,
       k.start AS kernel_timestamp, k.duration AS kernel_duration, k.stream_id
FROM iterations AS i JOIN kernels AS k ON k.id >= i.kernel_low AND k.id < i.kernel_high
WHERE i.aggregated = 1;

CREATE VIEW view_launch_ops AS
SELECT q.id AS op_key, o.op_id AS op_node_id, o.op_name AS op_node_name
FROM op_kernels AS q JOIN ops AS o ON o.id = q.op;

CREATE VIEW view_launch_names AS
SELECT id AS name_key, name AS kernel_name, long_name AS long_kernel_name, uses_tc, readable_name
FROM kernel_names;

CREATE VIEW view_launch_sizes AS
SELECT id AS size_key, grid_x || ', ' || grid_y || ', ' || grid_z AS grid,
       block_x || ', ' || block_y || ', ' || block_z AS block
FROM launch_sizes;

CREATE VIEW view_launch_devices AS
SELECT id AS device_key, device_id FROM devices;

CREATE VIEW view_group_summary AS
SELECT g.*, e.flops, e.bytes, e.tflops_per_second, e.gbytes_per_second, e.arithmetic_intensity,
       e.bound, e.ideal_time, e.left_time, e.peak_pct
FROM view_group_metrics AS g LEFT JOIN view_group_efficiency AS e
ON e.aggr_id = g.aggr_id AND e.domain_name = g.domain_name AND e.group_name = g.group_name;
