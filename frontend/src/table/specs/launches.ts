/** Kernels one by one, inside of one iteration. */

import type { Launch } from "../../api/types";
import { t } from "../../i18n";
import { countColumn, flagColumn, nameColumn, timeColumn } from "../columns";
import type { Column, TableSpec } from "../spec";

const OP_NAME = nameColumn<Launch>("op_name", t("Op name"), { width: 280, isWide: true });

const COLUMNS: readonly Column<Launch>[] = [
  nameColumn<Launch>("kernel_name", t("Kernel name"), { width: 280 }),
  {
    ...countColumn<Launch>("device_id", t("Device ID"), { width: 100 }),
    kind: "choice",
  },
  timeColumn<Launch>("api_start_ns", t("Kernel timestamp"), "ms", {
    width: 190,
    hint: t("When its launch was called, counted from the start of the profile"),
  }),
  timeColumn<Launch>("start_time_ns", t("GPU start"), "ms", {
    width: 130,
    hint: t("When it began on the GPU, counted from the start of the profile"),
  }),
  timeColumn<Launch>("gpu_time_ns", t("GPU time"), "µs", { width: 128 }),
  flagColumn<Launch>("uses_tc", t("Uses TC"), {
    width: 94,
    whenNull: t("Its name does not tell"),
  }),
  { ...nameColumn<Launch>("grid", t("Grid"), { width: 124 }), isSortable: false },
  { ...nameColumn<Launch>("block", t("Block"), { width: 112 }), isSortable: false },
  {
    ...countColumn<Launch>("stream_id", t("Stream"), { width: 90, isHiddenAtFirst: true }),
    kind: "choice",
  },
  timeColumn<Launch>("api_time_ns", t("Launch call"), "µs", {
    width: 120,
    hint: t("How long the call that launched it took on the CPU"),
    isHiddenAtFirst: true,
  }),
  nameColumn<Launch>("kernel_long_name", t("Long kernel name"), {
    width: 400,
    isHiddenAtFirst: true,
  }),
];

function launchKey(launch: Launch): string {
  const { api_start_ns: start, device_id: device, op_id: op, kernel_name: name } = launch;
  return `${start} ${device} ${op} ${name} ${launch.start_time_ns} ${launch.gpu_time_ns}`;
}

const common = {
  noun: [t("kernel"), t("kernels")] as const,
  defaults: { sort: "api_start_ns", pageSize: 50 },
  rowKey: launchKey,
};

export const ITERATION_KERNELS_TABLE: TableSpec<Launch> = {
  ...common,
  id: "launches",
  columns: [OP_NAME, ...COLUMNS],
};

/** All rows belong to one op: its name comes last, for who wants it. */
export const ITERATION_OP_KERNELS_TABLE: TableSpec<Launch> = {
  ...common,
  id: "oplaunches",
  columns: [
    nameColumn<Launch>("kernel_name", t("Kernel name"), { width: 280, isWide: true }),
    ...COLUMNS.slice(1),
    { ...OP_NAME, isWide: false, isHiddenAtFirst: true },
  ],
};
