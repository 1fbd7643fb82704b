/** The kernel tables: of one op, and of all ops. */

import type { Kernel } from "../../api/types";
import { t } from "../../i18n";
import {
  choiceColumn,
  countColumn,
  flagColumn,
  nameColumn,
  shareColumn,
  textColumn,
  timeColumn,
  traceColumn,
} from "../columns";
import type { Column, TableSpec } from "../spec";
import { StackTrace } from "./ops";

function kernelTone(kernel: Kernel): string {
  return kernel.uses_tc === true ? "tc" : "non_tc";
}

function kernelColumns(shareHint: string): readonly Column<Kernel>[] {
  return [
    nameColumn<Kernel>("kernel_name", t("Kernel name"), { width: 300, isWide: true }),
    flagColumn<Kernel>("uses_tc", t("Using TC"), {
      width: 98,
      whenNull: t("Its name does not tell"),
    }),
    countColumn<Kernel>("num_calls", t("Calls"), { width: 76 }),
    timeColumn<Kernel>("gpu_time_ns", t("GPU time"), "ms", {
      hint: t("Sum of the durations of its launches"),
    }),
    shareColumn<Kernel>("share_pct", t("Share (%)"), kernelTone, {
      hint: shareHint,
    }),
    timeColumn<Kernel>("gpu_time_avg_ns", t("Avg"), "µs", { width: 100 }),
    timeColumn<Kernel>("gpu_time_min_ns", t("Min"), "µs", { width: 100 }),
    timeColumn<Kernel>("gpu_time_max_ns", t("Max"), "µs", { width: 100 }),
  ];
}

const common = {
  noun: [t("kernel"), t("kernels")] as const,
  defaults: { sort: "-gpu_time_ns", pageSize: 50 },
};

export const OP_KERNELS_TABLE: TableSpec<Kernel> = {
  ...common,
  id: "kernels",
  columns: kernelColumns(t("Of the kernel time of this op")),
  rowKey: (kernel) => `${kernel.kernel_name} ${kernel.uses_tc}`,
};

export const ALL_KERNELS_TABLE: TableSpec<Kernel> = {
  ...common,
  id: "kernels",
  columns: [
    ...kernelColumns(t("Of the time of all kernels")),
    nameColumn<Kernel>("op_name", t("Op name"), { width: 260 }),
    choiceColumn<Kernel>("direction", t("Direction"), { width: 100 }),
    textColumn<Kernel>("op_id", t("Op ID"), { width: 140, isHiddenAtFirst: true }),
    traceColumn<Kernel>("source_line", t("Program line"), { width: 280 }),
  ],
  rowKey: (kernel) => `${kernel.op_id} ${kernel.kernel_name} ${kernel.uses_tc}`,
  unfolded: (kernel) => StackTrace({ trace: kernel.stack_trace, line: kernel.source_line }),
};
