/** Tables of kernels: of one op, of all ops, and launch by launch in an iteration. */

import type {
  IterationKernelsRow,
  KernelsRow,
  MergedKernelsRow,
  OpKernelsRow,
} from "../../api/types";
import { t } from "../../i18n";
import { KernelName } from "../../ui/PageLink";
import { pickColumns, shareOf, shownColumns } from "../columns";
import { ITERATION_KERNELS, KERNELS, MERGED_KERNELS, OP_KERNELS } from "../declared";
import type { CellContext, TableSpec } from "../spec";
import { direction, op_name, StackTrace } from "./ops";

const noun = [t("kernel"), t("kernels")] as const;

/** The part that a kernel's time belongs to, as a color. */
export function kernelTone(kernel: {
  readonly kernel_name: string;
  readonly uses_tc: boolean | null;
}): string {
  if (kernel.kernel_name.toLowerCase().startsWith("nccl")) return "communication";
  return kernel.uses_tc === true ? "tc" : "non_tc";
}

interface NamedKernel {
  readonly kernel_name: string;
  readonly kernel_long_name: string | null;
}

/** DLProf's databases have the short name only. */
function fullName(kernel: NamedKernel): string {
  return kernel.kernel_long_name ?? kernel.kernel_name;
}

const uses_tc = { title: t("TC"), width: 64 };

/** Rows are kernels by their full names; people read the readable one, which several may share. */
const readable_name = {
  isWide: true,
  width: 320,
  draw: (name: string, kernel: NamedKernel, context: CellContext) => (
    <KernelName
      name={name}
      full={fullName(kernel)}
      short={context.short?.("readable_name", name)}
    />
  ),
};

export const OP_KERNELS_TABLE: TableSpec<OpKernelsRow> = {
  id: "kernels",
  noun,
  columns: shownColumns(OP_KERNELS, {
    readable_name,
    uses_tc,
    share_pct: shareOf<OpKernelsRow>("share_pct", kernelTone),
  }),
  defaults: { sort: "-gpu_time_ns", pageSize: 50 },
  rowKey: (kernel) => `${fullName(kernel)} ${kernel.uses_tc}`,
};

export const ALL_KERNELS_TABLE: TableSpec<KernelsRow> = {
  ...OP_KERNELS_TABLE,
  columns: shownColumns(KERNELS, {
    direction,
    op_name,
    readable_name,
    uses_tc,
    share_pct: shareOf<KernelsRow>("share_pct", kernelTone),
  }),
  rowKey: (kernel) => `${kernel.op_id} ${fullName(kernel)} ${kernel.uses_tc}`,
  unfolded: (kernel) => StackTrace({ trace: kernel.stack_trace, line: kernel.source_line }),
};

/** One row for each kernel, however many ops launch it. */
export const MERGED_KERNELS_TABLE: TableSpec<MergedKernelsRow> = {
  ...OP_KERNELS_TABLE,
  columns: shownColumns(MERGED_KERNELS, {
    readable_name,
    uses_tc,
    share_pct: shareOf<MergedKernelsRow>("share_pct", kernelTone),
  }),
};

/** All rows are of one kernel. */
export const OPS_OF_KERNEL_TABLE: TableSpec<KernelsRow> = {
  ...ALL_KERNELS_TABLE,
  id: "kernelops",
  noun: [t("op"), t("ops")],
  columns: pickColumns(ALL_KERNELS_TABLE.columns, [
    "op_name",
    "direction",
    "num_calls",
    "gpu_time_ns",
    "share_pct",
    "gpu_time_avg_ns",
    "gpu_time_min_ns",
    "gpu_time_max_ns",
    "source_line",
    "op_id",
  ]).map((column) => ({ ...column, isWide: column.key === "op_name" })),
};

export const ITERATION_KERNELS_TABLE: TableSpec<IterationKernelsRow> = {
  id: "launches",
  noun,
  columns: shownColumns(ITERATION_KERNELS, {
    op_name,
    readable_name: { ...readable_name, isWide: false },
    grid: { width: 124, isSortable: false },
    block: { width: 112, isSortable: false },
  }),
  defaults: { sort: "api_start_ns", pageSize: 50 },
  rowKey: (launch) =>
    [
      launch.api_start_ns,
      launch.device_id,
      launch.op_id,
      fullName(launch),
      launch.start_time_ns,
      launch.gpu_time_ns,
    ].join(" "),
};

const [OP_NAME, KERNEL_NAME, ...LAUNCH] = ITERATION_KERNELS_TABLE.columns;

/** All rows are of one op: its name comes last and is not shown at first. */
export const ITERATION_OP_KERNELS_TABLE: TableSpec<IterationKernelsRow> = {
  ...ITERATION_KERNELS_TABLE,
  id: "oplaunches",
  columns: [
    ...(KERNEL_NAME === undefined ? [] : [{ ...KERNEL_NAME, isWide: true }]),
    ...LAUNCH,
    ...(OP_NAME === undefined ? [] : [{ ...OP_NAME, isWide: false, isHiddenAtFirst: true }]),
  ],
};
