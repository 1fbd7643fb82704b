/** What time is spent on. One color each, the same in every chart, table, badge and report. */

import { t } from "../i18n";

export interface Part {
  readonly key: PartKey;
  readonly label: string;
  readonly hint: string;
}

export type PartKey = "tc" | "non_tc" | "communication" | "graph" | "memory" | IdlePart;

type IdlePart = "dataloader" | "io" | "cpu" | "other";

/** Parts that few captures have; without any of it they are left out. */
export const RARE_PARTS: ReadonlySet<string> = new Set(["communication", "graph"]);

/** Parts in which the GPU runs nothing. */
export const IDLE_PARTS: ReadonlySet<string> = new Set(["dataloader", "io", "cpu", "other"]);

const WORDS: readonly (readonly [key: PartKey, label: string, hint: string])[] = [
  ["tc", t("Tensor Core kernels"), t("A kernel that uses Tensor Cores was running")],
  ["non_tc", t("Other kernels"), t("Only other kernels were running")],
  ["communication", t("Communication"), t("Only kernels were running that move data between GPUs")],
  ["graph", t("CUDA graphs"), t("Only CUDA graphs were running whose kernels were not recorded")],
  ["memory", t("Copies"), t("Only copies or fills were running on the GPU")],
  ["dataloader", t("Idle: data loader"), t("GPU idle, the data loader was working")],
  ["io", t("Idle: I/O"), t("GPU idle, files were read or written")],
  ["cpu", t("Idle: CPU ops"), t("GPU idle, ops were running on the CPU")],
  ["other", t("Idle: Python or other"), t("GPU idle and no op was running")],
];

/** In stacking order: a higher one wins where two overlap. */
export const PARTS: readonly Part[] = WORDS.map(([key, label, hint]) => ({ key, label, hint }));

/** One slice of a breakdown as it is drawn. */
export interface Slice {
  readonly key: string;
  readonly label: string;
  readonly value: number;
  readonly hint?: string;
}

export interface DrawnSlice extends Slice {
  /** Share of all slices, hidden ones included. Unit: percent. */
  readonly pct: number;
}

/** Shares of the slices; hiding one leaves its place empty and the other shares as they are. */
export function drawnSlices(slices: readonly Slice[]): readonly DrawnSlice[] {
  const total = slices.reduce((sum, slice) => sum + slice.value, 0);
  if (total <= 0) return [];
  return slices
    .filter((slice) => slice.value > 0)
    .map((slice) => ({ ...slice, pct: (100 * slice.value) / total }));
}
