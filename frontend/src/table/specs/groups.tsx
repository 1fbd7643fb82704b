/** Groups and their ops: the columns are the same in the tree and in the flat list. */

import type { GroupOp } from "../../api/types";
import { t } from "../../i18n";
import { choiceColumn, countColumn, nameColumn, textColumn, timeColumn } from "../columns";
import type { Column, TableSpec } from "../spec";

export const GROUP_FIGURES: readonly Column<GroupOp>[] = [
  timeColumn<GroupOp>("gpu_time_ns", t("GPU time"), "ms", {
    hint: t("GPU time of all ops below"),
    width: 124,
  }),
  timeColumn<GroupOp>("cpu_time_ns", t("CPU time"), "ms", {
    hint: t("CPU time of all ops below"),
    width: 122,
  }),
  timeColumn<GroupOp>("cpu_overhead_ns", t("CPU overhead"), "ms", {
    hint: t("CPU time outside of CUDA calls"),
    width: 158,
  }),
  timeColumn<GroupOp>("gpu_idle_ns", t("GPU idle"), "ms", {
    hint: t("Gaps between the device work of a call, in which the GPU waited"),
    width: 122,
  }),
  countColumn<GroupOp>("num_op_instances", t("Op instances"), {
    width: 122,
    hint: t("Executions of the ops below"),
  }),
  countColumn<GroupOp>("num_tc_eligible_ops", t("TC eligible"), {
    width: 108,
    hint: t("Ops below that could use Tensor Cores"),
  }),
  countColumn<GroupOp>("num_ops_using_tc", t("Using TC"), {
    width: 98,
    hint: t("Ops below that do use Tensor Cores"),
  }),
];

const KINDS = { group: t("group"), op: t("op") };

/** The columns of the tree: kind and level are what its shape says. */
export const TREE_TABLE: Pick<TableSpec<GroupOp>, "id" | "columns"> = {
  id: "tree",
  columns: [nameColumn<GroupOp>("name", t("Name"), { width: 340, isWide: true }), ...GROUP_FIGURES],
};

export const GROUPS_TABLE: TableSpec<GroupOp> = {
  id: "groups",
  noun: [t("group or op"), t("groups and ops")],
  columns: [
    nameColumn<GroupOp>("name", t("Name"), { width: 340, isWide: true }),
    {
      ...choiceColumn<GroupOp>("kind", t("Kind"), { width: 90 }),
      cell: (row) => KINDS[row.kind],
    },
    countColumn<GroupOp>("level", t("Level"), { width: 80 }),
    ...GROUP_FIGURES,
    textColumn<GroupOp>("id", t("Op ID"), { width: 200, isHiddenAtFirst: true }),
  ],
  defaults: { sort: "-gpu_time_ns", pageSize: 50 },
  rowKey: (row) => `${row.kind} ${row.id} ${row.name}`,
};
