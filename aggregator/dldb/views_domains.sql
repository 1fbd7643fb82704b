-- Kernel views of databases that have custom domains: they show the domains' kernels as well.

DROP VIEW view_iteration_op_kernels;
DROP VIEW view_iteration_ops;
DROP VIEW view_iteration_kernels;
DROP VIEW view_kernel_launches;

CREATE VIEW view_kernel_launches AS
SELECT i.aggr AS aggr_id, d.name AS domain_name, i.iter_value, o.op_id AS op_node_id,
       o.op_name AS op_node_name, o.direction, o.op_type AS op_node_type, n.name AS kernel_name,
       n.long_name AS long_kernel_name, v.device_id, k.stream_id, k.start AS kernel_timestamp,
       k.duration AS kernel_duration, k.api_start, k.api_duration, n.uses_tc, s.grid_x, s.grid_y,
       s.grid_z, s.block_x, s.block_y, s.block_z, o.data_type, coalesce(x.input_shapes, '') AS input_shapes,
       coalesce(x.parameters, '') AS parameters, coalesce(x.output_shapes, '') AS output_shapes,
       p.pid AS process_id, k.id AS row_id, q.last_long_name AS last_long_kernel_name
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
       s.grid_z, s.block_x, s.block_y, s.block_z, o.data_type, coalesce(x2.input_shapes, '') AS input_shapes,
       coalesce(x2.parameters, '') AS parameters, coalesce(x2.output_shapes, '') AS output_shapes,
       p.pid AS process_id, k.id AS row_id, q.last_long_name AS last_long_kernel_name
FROM iterations AS i
JOIN domain_kernels AS x ON x.kernel >= i.kernel_low AND x.kernel < i.kernel_high AND x.by_time = 0
JOIN kernels AS k ON k.id = x.kernel
JOIN op_kernels AS q ON q.id = x.op_kernel
JOIN ops AS o ON o.id = q.op
JOIN domains AS d ON d.id = o.domain
JOIN kernel_names AS n ON n.id = k.name
JOIN devices AS v ON v.id = k.device
JOIN launch_sizes AS s ON s.id = k.size
JOIN processes AS p ON p.id = k.process
JOIN op_instances AS j ON j.id = x.instance
LEFT JOIN shape_texts AS x2 ON x2.id = j.shapes
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
WHERE i.aggregated = 1
UNION ALL
SELECT i.aggr AS aggr_id, d.name AS domain_name, i.iter_value, o.op_name AS op_node_name,
       n.name AS kernel_name, v.device_id, k.api_start AS kernel_timestamp,
       k.duration AS kernel_duration, n.uses_tc,
       s.grid_x || ', ' || s.grid_y || ', ' || s.grid_z AS grid,
       s.block_x || ', ' || s.block_y || ', ' || s.block_z AS block,
       o.op_id AS op_node_id, k.id AS row_id
FROM iterations AS i
JOIN domain_kernels AS x ON x.kernel >= i.kernel_low AND x.kernel < i.kernel_high AND x.by_time = 0
JOIN kernels AS k ON k.id = x.kernel
JOIN op_kernels AS q ON q.id = x.op_kernel
JOIN ops AS o ON o.id = q.op
JOIN domains AS d ON d.id = o.domain
JOIN kernel_names AS n ON n.id = k.name
JOIN devices AS v ON v.id = k.device
JOIN launch_sizes AS s ON s.id = k.size
WHERE i.aggregated = 1;

CREATE VIEW view_iteration_ops AS
SELECT i.aggr AS aggr_id, d.name AS domain_name, i.iter_value, o.op_name AS op_node_name, o.direction,
       o.op_type AS op_node_type, count(*) AS total_count, sum(q.uses_tc) AS tc_count,
       sum(k.duration) AS total_gpu_time, sum(CASE WHEN q.uses_tc = 1 THEN k.duration ELSE 0 END) AS tc_gpu_time,
       o.data_type, o.stack_trace, o.op_id AS op_node_id
FROM iterations AS i
JOIN kernels AS k ON k.id >= i.kernel_low AND k.id < i.kernel_high
JOIN op_kernels AS q ON q.id = k.op_kernel
JOIN ops AS o ON o.id = q.op
JOIN domains AS d ON d.id = o.domain
WHERE i.aggregated = 1
GROUP BY i.aggr, d.name, i.iter_value, o.id
UNION ALL
SELECT i.aggr AS aggr_id, d.name AS domain_name, i.iter_value, o.op_name AS op_node_name, o.direction,
       o.op_type AS op_node_type, count(*) AS total_count, sum(q.uses_tc) AS tc_count,
       sum(k.duration) AS total_gpu_time, sum(CASE WHEN q.uses_tc = 1 THEN k.duration ELSE 0 END) AS tc_gpu_time,
       o.data_type, o.stack_trace, o.op_id AS op_node_id
FROM iterations AS i
JOIN domain_kernels AS x ON x.kernel >= i.kernel_low AND x.kernel < i.kernel_high AND x.by_time = 0
JOIN kernels AS k ON k.id = x.kernel
JOIN op_kernels AS q ON q.id = x.op_kernel
JOIN ops AS o ON o.id = q.op
JOIN domains AS d ON d.id = o.domain
WHERE i.aggregated = 1
GROUP BY i.aggr, d.name, i.iter_value, o.id;

CREATE VIEW view_iteration_op_kernels AS
SELECT aggr_id, domain_name, iter_value, op_node_id, kernel_name, device_id, kernel_timestamp,
       kernel_duration, uses_tc, grid, block, row_id
FROM view_iteration_kernels;
