/** Ops of several ranks and kernels of several ops, merged or not, and which kernels belong to the ops that are listed. */

import type { Profile } from "../../api/types";
import type { Query } from "../../state/query";
import type { TableState } from "../../table/model";

/** Value of the address's `ranks` for a row per rank. */
export const EACH = "each";

export function isOfRanks(profile: Profile): boolean {
  return Number(profile.info.rank_count ?? 0) > 1;
}

/** Columns that both tables have, to filter or sort by. */
const IN_BOTH =
  /^(op_name|direction|op_type|data_type|tc_eligible|using_tc|source_line|stack_trace|gpu_time_ns|cpu_time_ns|share_pct|num_calls|kernel_calls)(__\w+)?$/;
/** Columns of the merged table alone. */
const IN_MERGED = /^(ranks|num_ranks|slowest_rank|slowest_gpu_time_ns|imbalance_pct)(__\w+)?$/;

/** Columns that a row of a kernel and an op has, to filter or sort by. */
const OF_OP = /^(op_id|op_name|direction|source_line|stack_trace)(__\w+)?$/;

/** The filters and columns to sort by that an address names for a table. */
function namedFor(table: string, query: Query): readonly string[] {
  const prefix = `${table}.f.`;
  const filters = [...query.keys()].filter((key) => key.startsWith(prefix));
  const sort = (query.get(`${table}.sort`) ?? "").split(",").map((term) => term.replace(/^-/, ""));
  return [...filters.map((key) => key.slice(prefix.length)), ...sort];
}

/** Whether an address wants each kernel once, for all ops together. */
export function areOpsMerged(query: Query): boolean {
  return query.get("rows") !== "op" && !namedFor("kernels", query).some((name) => OF_OP.test(name));
}

/** Whether an address wants the ranks merged: unless it says otherwise, or names what only one has. */
export function areRanksMerged(query: Query): boolean {
  if (query.get("ranks") === EACH || query.get("ops.q")?.includes("/rank_") === true) return false;
  const named = namedFor("ops", query);
  return named.every((name) => name === "" || IN_BOTH.test(name) || IN_MERGED.test(name));
}

/** The query string of the list of ops that the kernels are to follow; null: all ops. */
export function followedOps(state: TableState): string | null {
  const params = { ...state.filters, ...(state.search === "" ? {} : { search: state.search }) };
  return Object.keys(params).length === 0 ? null : new URLSearchParams(params).toString();
}
