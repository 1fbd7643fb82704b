/** How the GPU's work got its names, and how much of it has which evidence. */

import type { ListPage } from "../../api/lists";
import type { NameEvidenceRow } from "../../api/types";
import { t } from "../../i18n";
import { durationText, exactNs, formatInt, formatPct } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { ColumnsTable, RIGHT, type TableColumn } from "../../ui/ColumnsTable";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded } from "../../ui/states";
import { ViewLink } from "./ViewLink";

const GRADES: Readonly<Record<string, string>> = {
  recorded: t("exact"),
  provenance: t("provenance"),
  capture: t("capture"),
  annotated: t("annotated"),
  aligned: t("aligned"),
  module: t("module only"),
  unknown: t("unknown"),
};

const COLUMNS: readonly TableColumn<NameEvidenceRow>[] = [
  [t("Evidence"), ({ name_grade: grade }) => GRADES[grade ?? ""] ?? grade, { isHead: true }],
  [t("Share of GPU time"), ({ gpu_time_pct: pct }) => pct !== null && `${formatPct(pct)} %`, RIGHT],
  [
    t("GPU time"),
    ({ gpu_time_ns: ns }) => ns !== null && durationText(ns),
    { ...RIGHT, tip: ({ gpu_time_ns: ns }) => (ns === null ? undefined : exactNs(ns)) },
  ],
  [t("Ops"), ({ num_ops: ops }) => ops !== null && formatInt(ops), RIGHT],
  [t("What it is"), (row) => row.name_reason],
];

/** Nothing where all of it was recorded: that is as it should be. */
export function NamesPanel() {
  const evidence = useScoped<ListPage<NameEvidenceRow>>("name-evidence/", { page_size: 100 });
  const rows = evidence.data?.results ?? [];
  if (rows.every((row) => row.name_grade === "recorded") && evidence.error === null) return null;
  return (
    <Panel
      title={t("Kernel-to-op matching")}
      span={12}
      actions={<ViewLink view="ops">{t("All ops")}</ViewLink>}
    >
      <Loaded resource={evidence}>
        {({ results }) =>
          results.length === 0 ? (
            <Empty title={t("No kernels were recorded")} />
          ) : (
            <ColumnsTable<NameEvidenceRow>
              class="facts-table"
              rows={results}
              rowKey={(row) => `${row.name_grade} ${row.name_reason}`}
              columns={COLUMNS}
            />
          )
        }
      </Loaded>
    </Panel>
  );
}
