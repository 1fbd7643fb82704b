/** What time is spent on. One color each, the same in every chart, table, badge and report. */

import { t } from "../i18n";

export interface Part {
  readonly key: PartKey;
  readonly label: string;
  readonly hint: string;
}

export type PartKey = "tc" | "non_tc" | "graph" | "memory" | "dataloader" | "io" | "cpu" | "other";

/** In stacking order: a higher one wins where two overlap. */
export const PARTS: readonly Part[] = [
  {
    key: "tc",
    label: t("Using Tensor Cores"),
    hint: t("A kernel that uses Tensor Cores was running"),
  },
  { key: "non_tc", label: t("Not using Tensor Cores"), hint: t("Only other kernels were running") },
  {
    key: "graph",
    label: t("CUDA graphs, content unknown"),
    hint: t("Only CUDA graphs were running whose kernels were not recorded"),
  },
  { key: "memory", label: t("Memory"), hint: t("Only copies or fills were running on the GPU") },
  { key: "dataloader", label: t("Dataloader"), hint: t("GPU idle, the data loader was working") },
  { key: "io", label: "I/O", hint: t("GPU idle, files were read or written") },
  { key: "cpu", label: t("CPU"), hint: t("GPU idle, ops were running on the CPU") },
  { key: "other", label: t("Other"), hint: t("GPU idle and no op was running") },
];

/** One slice of a breakdown as it is drawn. */
export interface Slice {
  readonly key: string;
  readonly label: string;
  readonly value: number;
  readonly hint?: string;
}

export interface DrawnSlice extends Slice {
  /** Share of the visible total. Unit: percent. */
  readonly pct: number;
}

/** Shares of the slices that are not hidden; like a pie, hiding one lets the others grow. */
export function drawnSlices(
  slices: readonly Slice[],
  hidden: ReadonlySet<string>,
): readonly DrawnSlice[] {
  const visible = slices.filter((slice) => !hidden.has(slice.key));
  const total = visible.reduce((sum, slice) => sum + slice.value, 0);
  if (total <= 0) return [];
  return visible
    .filter((slice) => slice.value > 0)
    .map((slice) => ({ ...slice, pct: (100 * slice.value) / total }));
}
