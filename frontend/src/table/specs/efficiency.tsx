/** Achieved and possible rates of ops, op types, groups and iterations. */

import type {
  GroupEfficiencyRow,
  IterationEfficiencyRow,
  OpEfficiencyRow,
  OpTypeEfficiencyRow,
} from "../../api/types";
import { t } from "../../i18n";
import { shownColumns } from "../columns";
import {
  GROUP_EFFICIENCY,
  ITERATION_EFFICIENCY,
  OP_EFFICIENCY,
  OP_TYPE_EFFICIENCY,
} from "../declared";
import type { TableSpec } from "../spec";
import { direction, op_name, StackTrace } from "./ops";

const BOUND: Readonly<Record<string, string>> = {
  compute: t("computing"),
  memory: t("memory"),
  link: t("bus"),
};

export function boundText(bound: string | null | undefined): string | null {
  return bound === null || bound === undefined ? null : (BOUND[bound] ?? bound);
}

const changes = { bound: { draw: boundText } };

export const EFFICIENCY_TABLE: TableSpec<OpEfficiencyRow> = {
  id: "efficiency",
  noun: [t("op"), t("ops")],
  columns: shownColumns(OP_EFFICIENCY, {
    direction,
    op_name,
    ...changes,
    peak_reason: { width: 260 },
    unknown_reason: { width: 260 },
  }),
  defaults: { sort: "-left_time_ns", pageSize: 50 },
  rowKey: (op) => op.op_id,
  unfolded: (op) => <StackTrace trace={op.stack_trace} line={op.source_line} />,
};

export const TYPE_EFFICIENCY_TABLE: TableSpec<OpTypeEfficiencyRow> = {
  id: "efficiency-types",
  noun: [t("op type"), t("op types")],
  columns: shownColumns(OP_TYPE_EFFICIENCY, { ...changes, op_type: { width: 240, isWide: true } }),
  defaults: { sort: "-left_time_ns", pageSize: 50 },
  rowKey: (row) => row.op_type,
};

export const GROUP_EFFICIENCY_TABLE: TableSpec<GroupEfficiencyRow> = {
  id: "efficiency-groups",
  noun: [t("group"), t("groups")],
  columns: shownColumns(GROUP_EFFICIENCY, {
    ...changes,
    group_name: { width: 340, isWide: true },
  }),
  defaults: { sort: "-left_time_ns", pageSize: 50 },
  rowKey: (row) => row.group_name,
};

export const ITERATION_EFFICIENCY_TABLE: TableSpec<IterationEfficiencyRow> = {
  id: "efficiency-iterations",
  noun: [t("iteration"), t("iterations")],
  columns: shownColumns(ITERATION_EFFICIENCY, changes),
  defaults: { sort: "iteration_index", pageSize: 50 },
  rowKey: (row) => String(row.iteration_index),
};
