/** What time is spent on. One color each, the same in every chart, table, badge and report. */

import { t } from "../i18n";

export interface Part {
  readonly key: PartKey;
  readonly label: string;
  readonly hint: string;
}

export type PartKey =
  | "tc"
  | "non_tc"
  | "communication"
  | "graph"
  | "memory"
  | "dataloader"
  | "io"
  | "cpu"
  | "other";

/** Parts that few captures have; without any of it they are left out. */
export const RARE_PARTS: ReadonlySet<string> = new Set(["communication", "graph"]);

/** Parts in which the GPU runs nothing. */
export const IDLE_PARTS: ReadonlySet<string> = new Set(["dataloader", "io", "cpu", "other"]);

/** In stacking order: a higher one wins where two overlap. */
export const PARTS: readonly Part[] = [
  {
    key: "tc",
    label: t("Tensor Core kernels"),
    hint: t("A kernel that uses Tensor Cores was running"),
  },
  { key: "non_tc", label: t("Other kernels"), hint: t("Only other kernels were running") },
  {
    key: "communication",
    label: t("Communication"),
    hint: t("Only kernels were running that move data between GPUs"),
  },
  {
    key: "graph",
    label: t("CUDA graphs"),
    hint: t("Only CUDA graphs were running whose kernels were not recorded"),
  },
  { key: "memory", label: t("Copies"), hint: t("Only copies or fills were running on the GPU") },
  {
    key: "dataloader",
    label: t("Idle: data loader"),
    hint: t("GPU idle, the data loader was working"),
  },
  { key: "io", label: t("Idle: I/O"), hint: t("GPU idle, files were read or written") },
  { key: "cpu", label: t("Idle: CPU ops"), hint: t("GPU idle, ops were running on the CPU") },
  { key: "other", label: t("Idle: Python or other"), hint: t("GPU idle and no op was running") },
];

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
