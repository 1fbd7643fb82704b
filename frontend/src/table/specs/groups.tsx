/** Groups and their ops: the columns are the same in the tree and in the flat list. */

import type { GroupOpsRow } from "../../api/types";
import { t } from "../../i18n";
import { shownColumns } from "../columns";
import { GROUP_OPS } from "../declared";
import type { TableSpec } from "../spec";

const KINDS: Readonly<Record<string, string>> = { group: t("group"), op: t("op") };

export const GROUPS_TABLE: TableSpec<GroupOpsRow> = {
  id: "groups",
  noun: [t("group or op"), t("groups and ops")],
  columns: shownColumns(GROUP_OPS, {
    name: { width: 340 },
    kind: { draw: (kind: string) => KINDS[kind] ?? kind },
    id: { title: t("Op ID"), width: 200 },
  }),
  defaults: { sort: "-gpu_time_ns", pageSize: 50 },
  rowKey: (row) => `${row.kind} ${row.id} ${row.name}`,
};

/** The columns with the figures of a group or op. */
const GROUP_FIGURES = GROUPS_TABLE.columns.filter(({ key }) => /_ns$|^num_/.test(key));

/** The columns of the tree; its shape shows kind and level. */
export const TREE_TABLE: Pick<TableSpec<GroupOpsRow>, "id" | "columns"> = {
  id: "tree",
  columns: [...GROUPS_TABLE.columns.slice(0, 1), ...GROUP_FIGURES],
};
