-- The kernel views of databases with custom domains: they replace those of views.sql, whose part comes
-- first in each. The last part joins the kernels that the ranges of a domain cover. A view of several
-- parts sorts more slowly, so only databases with custom domains have these. The sums of long iterations
-- are stored for the default domain only.

DROP VIEW view_kernel_launches;
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
WHERE i.aggregated = 1
UNION ALL
SELECT i.aggr AS aggr_id, d.name AS domain_name, i.iter_value, o.op_id AS op_node_id,
       o.op_name AS op_node_name, o.direction, o.op_type AS op_node_type, n.name AS kernel_name,
       n.long_name AS long_kernel_name, v.device_id, k.stream_id, k.start AS kernel_timestamp,
       k.duration AS kernel_duration, k.api_start, k.api_duration, n.uses_tc, s.grid_x, s.grid_y,
       s.grid_z, s.block_x, s.block_y, s.block_z, o.data_type, coalesce(x.input_shapes, '') AS input_shapes,
       coalesce(x.parameters, '') AS parameters, coalesce(x.output_shapes, '') AS output_shapes,
       p.pid AS process_id, k.id AS row_id, q.last_long_name AS last_long_kernel_name,
       o.stack_trace, n.readable_name
FROM iterations AS i
JOIN domain_kernels AS c
    ON c.kernel >= i.kernel_low AND c.kernel < i.kernel_high AND c.by_time = 0
JOIN kernels AS k ON k.id = c.kernel
JOIN op_kernels AS q ON q.id = c.op_kernel
JOIN ops AS o ON o.id = q.op
JOIN domains AS d ON d.id = o.domain
JOIN kernel_names AS n ON n.id = k.name
JOIN devices AS v ON v.id = k.device
JOIN launch_sizes AS s ON s.id = k.size
JOIN processes AS p ON p.id = k.process
JOIN op_instances AS j ON j.id = c.instance
LEFT JOIN shape_texts AS x ON x.id = j.shapes
WHERE i.aggregated = 1;

DROP VIEW view_iteration_kernels;
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
WHERE i.aggregated = 1
UNION ALL
SELECT i.aggr AS aggr_id, d.name AS domain_name, i.iter_value, o.op_name AS op_node_name,
       n.name AS kernel_name, v.device_id, k.api_start AS kernel_timestamp,
       k.duration AS kernel_duration, n.uses_tc,
       s.grid_x || ', ' || s.grid_y || ', ' || s.grid_z AS grid,
       s.block_x || ', ' || s.block_y || ', ' || s.block_z AS block,
       o.op_id AS op_node_id, k.id AS row_id
FROM iterations AS i
JOIN domain_kernels AS c
    ON c.kernel >= i.kernel_low AND c.kernel < i.kernel_high AND c.by_time = 0
JOIN kernels AS k ON k.id = c.kernel
JOIN op_kernels AS q ON q.id = c.op_kernel
JOIN ops AS o ON o.id = q.op
JOIN domains AS d ON d.id = o.domain
JOIN kernel_names AS n ON n.id = k.name
JOIN devices AS v ON v.id = k.device
JOIN launch_sizes AS s ON s.id = k.size
WHERE i.aggregated = 1;

DROP VIEW view_iteration_ops;
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
WHERE i.aggregated = 1
UNION ALL
SELECT i.aggr AS aggr_id, d.name AS domain_name, i.iter_value, o.op_name AS op_node_name, o.direction,
       o.op_type AS op_node_type, count(*) AS total_count, sum(q.uses_tc) AS tc_count,
       sum(k.duration) AS total_gpu_time, sum(CASE WHEN q.uses_tc = 1 THEN k.duration ELSE 0 END) AS tc_gpu_time,
       o.data_type, o.stack_trace, o.op_id AS op_node_id,
       (SELECT min(j.start) FROM op_instances AS j
        WHERE j.op = o.id AND j.start >= i.start AND j.start < i.stop) AS op_start
FROM iterations AS i
JOIN domain_kernels AS c
    ON c.kernel >= i.kernel_low AND c.kernel < i.kernel_high AND c.by_time = 0
JOIN kernels AS k ON k.id = c.kernel
JOIN op_kernels AS q ON q.id = c.op_kernel
JOIN ops AS o ON o.id = q.op
JOIN domains AS d ON d.id = o.domain
WHERE i.aggregated = 1
GROUP BY i.aggr, d.name, i.iter_value, o.id;
