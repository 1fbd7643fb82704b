/** What ops should have cost beside what they took: "left to win" first. */

import type { EfficiencySum, OpEfficiency } from "../../api/types";
import { t } from "../../i18n";
import { Unknown } from "../../ui/states";
import {
  choiceColumn,
  countColumn,
  nameColumn,
  rateColumn,
  shareColumn,
  textColumn,
  timeColumn,
} from "../columns";
import type { Column, TableSpec } from "../spec";
import { StackTrace } from "./ops";

const NOT_KNOWN = t("Its operations or bytes are not known.");

const BOUND: Readonly<Record<string, string>> = {
  compute: t("computing"),
  memory: t("memory"),
  link: t("bus"),
};

export function boundText(bound: string | null | undefined): string | null {
  return bound === null || bound === undefined ? null : (BOUND[bound] ?? bound);
}

/** Columns of every table of this kind: what was achieved beside what could be. */
const RATES: readonly Column<EfficiencySum>[] = [
  timeColumn<EfficiencySum>("left_time_ns", t("Left to win"), "ms", {
    width: 150,
    hint: t("GPU time beyond what the GPU's peaks allow"),
    whenNull: NOT_KNOWN,
  }),
  timeColumn<EfficiencySum>("gpu_time_ns", t("GPU time"), "ms"),
  timeColumn<EfficiencySum>("ideal_time_ns", t("Ideal time"), "ms", {
    hint: t(
      "Per call the longer of its operations at the peak rate and its bytes at the peak bandwidth",
    ),
    whenNull: NOT_KNOWN,
  }),
  shareColumn<EfficiencySum>("peak_pct", t("Share of peak (%)"), () => "gpu", {
    width: 150,
    full: 100,
    hint: t("Ideal time over GPU time: 100 % is the roofline"),
    whenNull: NOT_KNOWN,
  }),
  rateColumn<EfficiencySum>("tflops_per_second", t("TFLOP/s"), t("Operations per GPU time")),
  rateColumn<EfficiencySum>("gbytes_per_second", t("GB/s"), t("Bytes to move per GPU time")),
  rateColumn<EfficiencySum>(
    "arithmetic_intensity",
    t("Intensity"),
    t("Operations per byte to move"),
  ),
];

const BOUND_BY: Column<EfficiencySum> = {
  ...choiceColumn<EfficiencySum>("bound", t("Bound by"), { width: 110, whenNull: NOT_KNOWN }),
  cell: (row) => boundText(row.bound) ?? <Unknown reason={NOT_KNOWN} />,
};

const AMOUNTS: readonly Column<EfficiencySum>[] = [
  countColumn<EfficiencySum>("flops", t("Operations"), {
    width: 150,
    whenNull: NOT_KNOWN,
    isHiddenAtFirst: true,
  }),
  countColumn<EfficiencySum>("bytes", t("Bytes"), {
    width: 140,
    whenNull: NOT_KNOWN,
    isHiddenAtFirst: true,
  }),
];

export const EFFICIENCY_TABLE: TableSpec<OpEfficiency> = {
  id: "efficiency",
  noun: [t("op"), t("ops")],
  columns: [
    nameColumn<OpEfficiency>("op_name", t("Op name"), { width: 300, isWide: true }),
    choiceColumn<OpEfficiency>("direction", t("Direction"), { width: 100 }),
    ...RATES,
    BOUND_BY,
    choiceColumn<OpEfficiency>("op_type", t("Op type"), { width: 124 }),
    countColumn<OpEfficiency>("num_calls", t("Calls"), { width: 76 }),
    choiceColumn<OpEfficiency>("precision", t("Precision"), {
      width: 110,
      hint: t("In which its matrix products ran"),
      whenNull: t("It has no matrix products."),
    }),
    ...AMOUNTS,
    textColumn<OpEfficiency>("peak_reason", t("Why above 100 %"), { width: 260 }),
    textColumn<OpEfficiency>("unknown_reason", t("Why unknown"), { width: 260 }),
    textColumn<OpEfficiency>("op_id", t("Op ID"), { width: 150, isHiddenAtFirst: true }),
  ],
  defaults: { sort: "-left_time_ns", pageSize: 50 },
  rowKey: (op) => op.op_id,
  unfolded: (op) => <StackTrace trace={op.stack_trace} line={op.source_line} />,
};

export const TYPE_EFFICIENCY_TABLE: TableSpec<EfficiencySum> = {
  id: "efficiency-types",
  noun: [t("op type"), t("op types")],
  columns: [
    { ...textColumn<EfficiencySum>("op_type", t("Op type"), { width: 240 }), isWide: true },
    ...RATES,
    BOUND_BY,
    countColumn<EfficiencySum>("num_calls", t("Calls"), { width: 76 }),
    ...AMOUNTS,
  ],
  defaults: { sort: "-left_time_ns", pageSize: 50 },
  rowKey: (row) => row.op_type ?? "",
};

export const GROUP_EFFICIENCY_TABLE: TableSpec<EfficiencySum> = {
  id: "efficiency-groups",
  noun: [t("group"), t("groups")],
  columns: [
    nameColumn<EfficiencySum>("group_name", t("Group"), { width: 340, isWide: true }),
    ...RATES,
    BOUND_BY,
    countColumn<EfficiencySum>("num_calls", t("Calls"), { width: 76 }),
    ...AMOUNTS,
  ],
  defaults: { sort: "-left_time_ns", pageSize: 50 },
  rowKey: (row) => row.group_name ?? "",
};

export const ITERATION_EFFICIENCY_TABLE: TableSpec<EfficiencySum> = {
  id: "efficiency-iterations",
  noun: [t("iteration"), t("iterations")],
  columns: [
    countColumn<EfficiencySum>("iteration_index", t("Iteration"), { width: 100 }),
    shareColumn<EfficiencySum>("mfu_pct", t("Model FLOPs utilisation (%)"), () => "gpu", {
      width: 210,
      full: 100,
      hint: t("Operations of matrix products at their peak rate, over the length of the iteration"),
      whenNull: NOT_KNOWN,
    }),
    timeColumn<EfficiencySum>("duration_ns", t("Duration"), "ms"),
    ...RATES,
    BOUND_BY,
    ...AMOUNTS,
  ],
  defaults: { sort: "iteration_index", pageSize: 50 },
  rowKey: (row) => String(row.iteration_index),
};
