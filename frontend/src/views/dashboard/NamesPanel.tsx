/** How the GPU's work got its names, and how much of it has which evidence. */

import type { JSX } from "preact";
import type { ListPage } from "../../api/lists";
import type { NameEvidenceRow } from "../../api/types";
import { t } from "../../i18n";
import { durationText, exactNs, formatInt, formatPct } from "../../lib/units";
import { useScoped } from "../../state/scope";
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

/** Nothing where all of it was recorded: that is as it should be. */
export function NamesPanel(): JSX.Element | null {
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
            <table class="facts-table">
              <thead>
                <tr>
                  <th scope="col">{t("Evidence")}</th>
                  <th scope="col" class="align-right">
                    {t("Share of GPU time")}
                  </th>
                  <th scope="col" class="align-right">
                    {t("GPU time")}
                  </th>
                  <th scope="col" class="align-right">
                    {t("Ops")}
                  </th>
                  <th scope="col">{t("What it is")}</th>
                </tr>
              </thead>
              <tbody>
                {results.map((row) => (
                  <EvidenceRow key={`${row.name_grade} ${row.name_reason}`} row={row} />
                ))}
              </tbody>
            </table>
          )
        }
      </Loaded>
    </Panel>
  );
}

function EvidenceRow({ row }: { row: NameEvidenceRow }): JSX.Element {
  return (
    <tr>
      <th scope="row">{GRADES[row.name_grade ?? ""] ?? row.name_grade}</th>
      <td class="align-right">
        {row.gpu_time_pct === null ? "" : `${formatPct(row.gpu_time_pct)} %`}
      </td>
      <td
        class="align-right"
        title={row.gpu_time_ns === null ? undefined : exactNs(row.gpu_time_ns)}
      >
        {row.gpu_time_ns === null ? "" : durationText(row.gpu_time_ns)}
      </td>
      <td class="align-right">{row.num_ops === null ? "" : formatInt(row.num_ops)}</td>
      <td>{row.name_reason}</td>
    </tr>
  );
}
