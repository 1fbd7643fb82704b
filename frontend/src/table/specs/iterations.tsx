/** The iterations table: each with its own breakdown bar. */

import type { Iteration } from "../../api/types";
import { PARTS } from "../../lib/parts";
import { durationText } from "../../lib/units";
import { Unknown } from "../../ui/states";
import { countColumn, flagColumn, timeColumn } from "../columns";
import type { Column, TableSpec } from "../spec";

const NOT_AGGREGATED = "This iteration is not aggregated.";
const whenNull = NOT_AGGREGATED;

export const INDEX_COLUMN: Column<Iteration> = {
  ...countColumn<Iteration>("iteration_index", "Iteration", { width: 150 }),
  align: "left",
  cell: (row) => (
    <span class="iteration-name">
      {row.iteration_index}
      {row.kind !== null && row.kind !== "iteration" && (
        <span class="tag">{row.kind === "before" ? "before the loop" : "after the loop"}</span>
      )}
    </span>
  ),
};

const breakdownColumn: Column<Iteration> = {
  key: "breakdown",
  title: "Breakdown",
  kind: "number",
  width: 220,
  isWide: true,
  isSortable: false,
  isFilterable: false,
  hint: "What its time was spent on, in the colours of the chart",
  plain: () => null,
  cell: (row) => <MiniBreakdown iteration={row} />,
};

function MiniBreakdown({ iteration }: { iteration: Iteration }) {
  const parts = PARTS.map((part) => ({ ...part, ns: iteration[`${part.key}_duration_ns`] ?? 0 }));
  const present = parts.filter((part) => part.ns > 0);
  const total = parts.reduce((sum, part) => sum + part.ns, 0);
  if (total <= 0) return <Unknown reason={NOT_AGGREGATED} />;
  const words = present.map((part) => `${part.label}: ${durationText(part.ns)}`);
  return (
    <span class="mini-bar" role="img" aria-label={words.join(", ")} title={words.join("\n")}>
      {present.map((part) => (
        <span
          key={part.key}
          class={`part-${part.key}`}
          style={{ width: `${(100 * part.ns) / total}%` }}
        />
      ))}
    </span>
  );
}

export const ITERATIONS_TABLE: TableSpec<Iteration> = {
  id: "iterations",
  noun: ["interval", "intervals"],
  columns: [
    INDEX_COLUMN,
    timeColumn<Iteration>("duration_ns", "Duration", "ms"),
    breakdownColumn,
    flagColumn<Iteration>("is_profiled", "Aggregated", {
      width: 116,
    }),
    countColumn<Iteration>("total_kernel_count", "Kernels", { whenNull }),
    countColumn<Iteration>("tc_kernel_count", "TC kernels", { whenNull, width: 110 }),
    timeColumn<Iteration>("tc_duration_ns", "TC", "ms", { whenNull, width: 100 }),
    timeColumn<Iteration>("non_tc_duration_ns", "Not TC", "ms", { whenNull, width: 116 }),
    timeColumn<Iteration>("memory_duration_ns", "Memory", "ms", { whenNull, width: 122 }),
    timeColumn<Iteration>("dataloader_duration_ns", "Dataloader", "ms", {
      whenNull,
      isHiddenAtFirst: true,
    }),
    timeColumn<Iteration>("io_duration_ns", "I/O", "ms", {
      whenNull,
      width: 100,
      isHiddenAtFirst: true,
    }),
    timeColumn<Iteration>("cpu_duration_ns", "CPU", "ms", { whenNull, width: 100 }),
    timeColumn<Iteration>("other_duration_ns", "Other", "ms", { whenNull, width: 100 }),
    timeColumn<Iteration>("start_time_ns", "Start", "ms", { width: 110, isHiddenAtFirst: true }),
  ],
  defaults: { sort: "iteration_index", pageSize: 50 },
  rowKey: (iteration) => String(iteration.iteration_index),
};
