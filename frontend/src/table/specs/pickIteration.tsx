/** The smaller iterations table that fills the tables below it. */

import type { ComponentChildren } from "preact";
import type { Iteration } from "../../api/types";
import { t } from "../../i18n";
import { exactNs, formatPct, formatTimeIn } from "../../lib/units";
import { Unknown } from "../../ui/states";
import { countColumn, timeColumn } from "../columns";
import type { Column, TableSpec } from "../spec";
import { INDEX_COLUMN } from "./iterations";

/** A time and which part of its iteration that is, as a bar and a figure. */
function partCell(row: Iteration, ns: number | null, tone: string): ComponentChildren {
  if (ns === null) return <Unknown reason={t("This iteration is not aggregated.")} />;
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
}

const gpuTimeColumn: Column<Iteration> = {
  key: "gpu_time_ns",
  title: t("Average GPU time"),
  unit: "ms",
  kind: "number",
  width: 230,
  align: "right",
  hint: t("Time with a kernel running, and its share of the iteration; the mean over all GPUs"),
  plain: (row) => row.gpu_time_ns,
  cell: (row) => partCell(row, row.gpu_time_ns, "non_tc"),
};

const tcTimeColumn: Column<Iteration> = {
  key: "tc_duration_ns",
  title: t("Average TC GPU time"),
  unit: "ms",
  kind: "number",
  width: 240,
  align: "right",
  hint: t("Time with a Tensor Core kernel running, and its share of the iteration"),
  plain: (row) => row.tc_duration_ns,
  cell: (row) => partCell(row, row.tc_duration_ns, "tc"),
};

export const PICK_ITERATION_TABLE: TableSpec<Iteration> = {
  id: "pick",
  noun: [t("iteration"), t("iterations")],
  columns: [
    { ...INDEX_COLUMN, isWide: true },
    timeColumn<Iteration>("start_time_ns", t("Timestamp"), "ms", {
      width: 146,
      hint: t("Start, counted from the start of the profile"),
    }),
    timeColumn<Iteration>("duration_ns", t("Duration"), "ms", { width: 124 }),
    countColumn<Iteration>("total_kernel_count", t("Total kernels"), { width: 120 }),
    countColumn<Iteration>("tc_kernel_count", t("TC kernels"), { width: 110 }),
    gpuTimeColumn,
    tcTimeColumn,
  ],
  defaults: { sort: "iteration_index", pageSize: 50 },
  rowKey: (iteration) => String(iteration.iteration_index),
};
