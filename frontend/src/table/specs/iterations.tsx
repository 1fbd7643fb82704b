/** The iterations table, and the smaller one that fills the tables below it. */

import type { ComponentChildren } from "preact";
import type { IterationsRow } from "../../api/types";
import { t } from "../../i18n";
import { PARTS } from "../../lib/activities";
import { durationText, exactNs, formatPct, formatTimeIn } from "../../lib/units";
import { Unknown } from "../../ui/states";
import { pickColumns, shownColumns } from "../columns";
import { ITERATIONS } from "../declared";
import type { Column, TableSpec } from "../spec";

/** Intervals that are no steps of the loop. */
const KINDS: Record<string, string> = {
  before: t("start-up"),
  after: t("after the loop"),
  between: t("not recorded"),
};

function indexCell(index: number, row: IterationsRow): ComponentChildren {
  return (
    <span class="iteration-name">
      {index}
      {row.kind !== null && row.kind !== "iteration" && (
        <span class="tag">{KINDS[row.kind] ?? row.kind}</span>
      )}
    </span>
  );
}

const BREAKDOWN: Column<IterationsRow> = {
  key: "breakdown",
  title: t("Breakdown"),
  kind: "number",
  width: 220,
  isWide: true,
  isSortable: false,
  isFilterable: false,
  hint: t("Where the time of the iteration went, in the colors of the chart"),
  plain: () => null,
  cell: (row) => <MiniBreakdown iteration={row} />,
};

function MiniBreakdown({ iteration }: { iteration: IterationsRow }) {
  const parts = PARTS.map((part) => ({ ...part, ns: iteration[`${part.key}_duration_ns`] ?? 0 }));
  const present = parts.filter((part) => part.ns > 0);
  const total = parts.reduce((sum, part) => sum + part.ns, 0);
  if (total <= 0) return <Unknown reason={t("This iteration is not aggregated.")} />;
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

const COLUMNS = shownColumns(ITERATIONS, {
  iteration_index: { width: 120, align: "left", draw: indexCell },
});

export const ITERATIONS_TABLE: TableSpec<IterationsRow> = {
  id: "iterations",
  noun: [t("interval"), t("intervals")],
  columns: [...COLUMNS.slice(0, 2), BREAKDOWN, ...COLUMNS.slice(2)],
  defaults: { sort: "iteration_index", pageSize: 50 },
  rowKey: (iteration) => String(iteration.iteration_index),
};

/** A time and the share of its iteration, as a bar and a figure. */
function partCell(tone: string) {
  return (ns: number, row: IterationsRow): ComponentChildren => {
    const duration = row.duration_ns ?? 0;
    const pct = duration > 0 ? (100 * ns) / duration : 0;
    return (
      <span class="share share-time" title={`${exactNs(ns)} · ${pct.toFixed(3)} %`}>
        <span class="share-amount">{formatTimeIn(ns, "ms")}</span>
        <span class="share-track" aria-hidden="true">
          <span class={`share-fill part-${tone}`} style={{ width: `${Math.min(100, pct)}%` }} />
        </span>
        <span class="share-value">{formatPct(pct)} %</span>
      </span>
    );
  };
}

const PICK_COLUMNS = shownColumns(ITERATIONS, {
  iteration_index: { width: 150, align: "left", draw: indexCell, isWide: true },
  gpu_time_ns: { title: t("Average GPU time"), width: 230, draw: partCell("gpu") },
  tc_duration_ns: { title: t("Average TC GPU time"), width: 240, draw: partCell("tc") },
});

export const PICK_ITERATION_TABLE: TableSpec<IterationsRow> = {
  id: "pick",
  noun: [t("iteration"), t("iterations")],
  columns: pickColumns(PICK_COLUMNS, [
    "iteration_index",
    "start_time_ns",
    "duration_ns",
    "total_kernel_count",
    "tc_kernel_count",
    "gpu_time_ns",
    "tc_duration_ns",
  ]),
  defaults: { sort: "iteration_index", pageSize: 50 },
  rowKey: (iteration) => String(iteration.iteration_index),
};
