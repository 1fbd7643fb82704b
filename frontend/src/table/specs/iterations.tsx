/** The iterations table: each with its own breakdown bar. */

import type { Iteration } from "../../api/types";
import { t } from "../../i18n";
import { PARTS } from "../../lib/parts";
import { durationText } from "../../lib/units";
import { Unknown } from "../../ui/states";
import { countColumn, flagColumn, timeColumn } from "../columns";
import type { Column, TableSpec } from "../spec";

const NOT_AGGREGATED = t("This iteration is not aggregated.");
const whenNull = NOT_AGGREGATED;

export const INDEX_COLUMN: Column<Iteration> = {
  ...countColumn<Iteration>("iteration_index", t("Iteration"), { width: 150 }),
  align: "left",
  cell: (row) => (
    <span class="iteration-name">
      {row.iteration_index}
      {row.kind !== null && row.kind !== "iteration" && (
        <span class="tag">{row.kind === "before" ? t("start-up") : t("after the loop")}</span>
      )}
    </span>
  ),
};

const breakdownColumn: Column<Iteration> = {
  key: "breakdown",
  title: t("Breakdown"),
  kind: "number",
  width: 220,
  isWide: true,
  isSortable: false,
  isFilterable: false,
  hint: t("What its time was spent on, in the colours of the chart"),
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
  noun: [t("interval"), t("intervals")],
  columns: [
    INDEX_COLUMN,
    timeColumn<Iteration>("duration_ns", t("Duration"), "ms"),
    breakdownColumn,
    flagColumn<Iteration>("is_profiled", t("Aggregated"), {
      width: 116,
    }),
    countColumn<Iteration>("total_kernel_count", t("Kernels"), { whenNull }),
    countColumn<Iteration>("tc_kernel_count", t("TC kernels"), { whenNull, width: 110 }),
    timeColumn<Iteration>("tc_duration_ns", t("TC"), "ms", { whenNull, width: 100 }),
    timeColumn<Iteration>("non_tc_duration_ns", t("Not TC"), "ms", { whenNull, width: 116 }),
    timeColumn<Iteration>("memory_duration_ns", t("Memory"), "ms", { whenNull, width: 122 }),
    timeColumn<Iteration>("dataloader_duration_ns", t("Dataloader"), "ms", {
      whenNull,
      isHiddenAtFirst: true,
    }),
    timeColumn<Iteration>("io_duration_ns", t("I/O"), "ms", {
      whenNull,
      width: 100,
      isHiddenAtFirst: true,
    }),
    timeColumn<Iteration>("cpu_duration_ns", t("CPU"), "ms", { whenNull, width: 100 }),
    timeColumn<Iteration>("other_duration_ns", t("Other"), "ms", { whenNull, width: 112 }),
    timeColumn<Iteration>("start_time_ns", t("Start"), "ms", { width: 110, isHiddenAtFirst: true }),
  ],
  defaults: { sort: "iteration_index", pageSize: 50 },
  rowKey: (iteration) => String(iteration.iteration_index),
};
