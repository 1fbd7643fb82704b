/** Sums kernels over some ops, as the server does. Pure functions only. */

import type { Row, Value } from "./rows";

function keyOf(row: Row): string {
  return JSON.stringify([row.kernel_long_name, row.kernel_name, row.uses_tc]);
}

type Combine = (values: readonly number[]) => number;

const sum: Combine = (values) => values.reduce((total, value) => total + value, 0);
const least: Combine = (values) => values.reduce((one, other) => Math.min(one, other));
const most: Combine = (values) => values.reduce((one, other) => Math.max(one, other));

/** A value of all rows together; unknown where one of them is. */
function combined(rows: readonly Row[], name: string, combine: Combine): number | null {
  const values = rows.map((row) => row[name]).filter((value) => typeof value === "number");
  return values.length === rows.length ? combine(values) : null;
}

/** As the server rounds the mean of a time. */
function mean(total: number | null, calls: number): number | null {
  return total === null ? null : Math.round((1e6 * total) / calls) / 1e6;
}

function merged(whole: Row, rows: readonly Row[], numOps: number): Row {
  const calls = combined(rows, "num_calls", sum) ?? 0;
  const times = ["gpu_time", "api_time"].flatMap((stem): [string, Value][] => {
    const total = combined(rows, `${stem}_ns`, sum);
    return [
      [`${stem}_ns`, total],
      [`${stem}_avg_ns`, mean(total, calls)],
      [`${stem}_min_ns`, combined(rows, `${stem}_min_ns`, least)],
      [`${stem}_max_ns`, combined(rows, `${stem}_max_ns`, most)],
    ];
  });
  const time = combined(rows, "gpu_time_ns", sum) ?? 0;
  const share = (Number(whole.share_pct) * time) / Number(whole.gpu_time_ns);
  return {
    ...whole,
    ...Object.fromEntries(times),
    num_calls: calls,
    num_ops: numOps,
    share_pct: whole.share_pct === null ? null : share,
  };
}

/**
 * The kernels of some ops.
 *
 * `whole` are the rows of the kernels for all ops, `ofOps` the rows of the kernels of each chosen op.
 */
export function mergedKernels(
  whole: readonly Row[],
  ofOps: readonly (readonly Row[])[],
): readonly Row[] {
  const found = new Map<string, { rows: Row[]; numOps: number }>();
  for (const rows of ofOps) {
    for (const row of rows) {
      const known = found.get(keyOf(row)) ?? { rows: [], numOps: 0 };
      known.rows.push(row);
      found.set(keyOf(row), { ...known, numOps: known.numOps + 1 });
    }
  }
  return whole.flatMap((row) => {
    const own = found.get(keyOf(row));
    return own === undefined ? [] : [merged(row, own.rows, own.numOps)];
  });
}
