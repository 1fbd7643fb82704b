/** The cells of the heat map: iterations by rank, several iterations in a cell where they are many. */

import type { RankIterationsRow } from "../../api/types";

/** Columns beyond which iterations share one: a cell must stay wide enough to be pointed at. */
const MOST_COLUMNS = 240;

export interface HeatCell {
  readonly rank: number;
  readonly column: number;
  /** Iterations of the cell, inclusive. */
  readonly first: number;
  readonly last: number;
  /** Longest time that the others waited for the rank in one of them; null: unknown. Unit: ns. */
  readonly value: number | null;
}

export interface HeatMap {
  readonly ranks: readonly number[];
  readonly columns: number;
  readonly first: number;
  readonly last: number;
  readonly largest: number;
  readonly cells: readonly HeatCell[];
}

/** Null without rows. */
export function heatMap(rows: readonly RankIterationsRow[]): HeatMap | null {
  const numbers = rows.map((row) => row.iteration_index);
  const first = numbers.reduce((least, one) => Math.min(least, one), Number.POSITIVE_INFINITY);
  const last = numbers.reduce((most, one) => Math.max(most, one), Number.NEGATIVE_INFINITY);
  if (rows.length === 0) return null;
  const width = Math.ceil((last - first + 1) / MOST_COLUMNS);
  const ranks = [...new Set(rows.map((row) => row.rank))].sort((a, b) => a - b);
  const cells = new Map<string, HeatCell>();
  for (const row of rows) {
    const column = Math.floor((row.iteration_index - first) / width);
    const key = `${row.rank} ${column}`;
    const before = cells.get(key)?.value ?? null;
    const own = row.kept_waiting_ns;
    cells.set(key, {
      rank: row.rank,
      column,
      first: first + column * width,
      last: Math.min(last, first + (column + 1) * width - 1),
      value: own === null ? before : Math.max(before ?? 0, own),
    });
  }
  const list = [...cells.values()];
  return {
    ranks,
    columns: Math.ceil((last - first + 1) / width),
    first,
    last,
    largest: list.reduce((most, cell) => Math.max(most, cell.value ?? 0), 0),
    cells: list,
  };
}
