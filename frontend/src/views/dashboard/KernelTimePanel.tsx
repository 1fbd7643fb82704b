/** GPU time of all kernels by kind; the details pane adds the counts. */

import type { KernelSummary, KernelSummaryAll } from "../../api/types";
import { ChartMenu } from "../../charts/ChartMenu";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import type { Slice } from "../../lib/activities";
import { sumText, sumUnit, useScale } from "../../lib/perStep";
import { exactNs, formatInt, formatTimeIn, pickTimeUnit } from "../../lib/units";
import { navigate } from "../../state/location";
import { useScoped } from "../../state/scope";
import { IconButton } from "../../ui/Button";
import { ColumnsTable, RIGHT } from "../../ui/ColumnsTable";
import { LimitMark } from "../../ui/Limits";
import { Panel } from "../../ui/Panel";
import { Loaded, Unknown } from "../../ui/states";
import { StackedBar } from "./StackedBar";
import { ViewLink } from "./ViewLink";

export const KERNEL_DETAILS = "kernels";

/** Communication is a part of the other kernels; where there is none it is no part of the chart. */
function slicesOf({ using_tc, memory, other, communication }: KernelSummary): readonly Slice[] {
  const moved = communication.gpu_time_ns ?? 0;
  const parts: readonly (Slice | null)[] = [
    { key: "tc", label: t("Using Tensor Cores"), value: using_tc.gpu_time_ns ?? 0 },
    { key: "memory", label: t("Memory kernels"), value: memory.gpu_time_ns ?? 0 },
    moved === 0 ? null : { key: "communication", label: t("Communication"), value: moved },
    { key: "non_tc", label: t("All other kernels"), value: (other.gpu_time_ns ?? 0) - moved },
  ];
  return parts.filter((part) => part !== null);
}

export function KernelTimePanel({ isOpen }: { isOpen: boolean }) {
  const summary = useScoped<KernelSummary>("kernel-summary/");
  const scale = useScale();
  return (
    <Panel
      title={t("Total kernel GPU time")}
      info={EXPLANATIONS.kernelGpuTime}
      span={12}
      actions={
        <>
          <ViewLink view="ops">{t("More…")}</ViewLink>
          <ChartMenu figure="kernel-gpu-time" />
          <IconButton
            icon="expand"
            label={t("Show kernel details")}
            aria-expanded={isOpen}
            onClick={() => navigate({ details: isOpen ? null : KERNEL_DETAILS })}
          />
        </>
      }
    >
      <Loaded resource={summary}>
        {(data) => (
          <>
            <p class="panel-lead">
              {data.all.gpu_time_ns === null ? (
                <Unknown reason={data.unknown?.all} />
              ) : (
                <>
                  <LimitMark figure="gpu_time" />
                  <b>{sumText(data.all.gpu_time_ns, scale)}</b>
                </>
              )}
            </p>
            <StackedBar
              label={t("Total kernel GPU time")}
              slices={slicesOf(data)}
              valueText={({ value }) => sumText(value, scale)}
            />
          </>
        )}
      </Loaded>
    </Panel>
  );
}

/** The content of the details pane: GPU time and count of each kind. */
export function KernelDetails() {
  const scale = useScale();
  const summary = useScoped<KernelSummary>("kernel-summary/");
  return (
    <Loaded resource={summary}>
      {(data) => {
        const { all, using_tc, memory, other, communication } = data;
        const unit = pickTimeUnit((all.gpu_time_ns ?? 0) / scale.steps);
        const rows: readonly DetailsRow[] = [
          { label: t("All kernels"), swatch: "swatch-none", ...all },
          { label: t("Kernels using Tensor Cores"), swatch: "part-tc", ...using_tc },
          { label: t("Memory kernels"), swatch: "part-memory", ...memory },
          { label: t("Communication"), swatch: "part-communication", ...communication },
          {
            label: t("All other kernels"),
            swatch: "part-non_tc",
            ...withoutPart(other, communication),
          },
        ];
        const isShown = (row: DetailsRow) =>
          row.swatch !== "part-communication" || (row.gpu_time_ns ?? 0) > 0;
        return (
          <ColumnsTable<DetailsRow>
            class="facts-table"
            caption={t("Kernel details")}
            rows={rows.filter(isShown)}
            rowKey={(row) => row.label}
            columns={[
              [
                t("Kernels"),
                ({ label, swatch }) => (
                  <>
                    <span class={`swatch ${swatch}`} />
                    {label}
                  </>
                ),
                { isHead: true },
              ],
              [
                `${t("GPU time")} (${sumUnit(unit, scale)})`,
                ({ gpu_time_ns: ns }) =>
                  ns === null ? <Unknown /> : formatTimeIn(ns / scale.steps, unit),
                { ...RIGHT, tip: ({ gpu_time_ns: ns }) => (ns === null ? undefined : exactNs(ns)) },
              ],
              [
                t("Count"),
                ({ count }) => (count === null ? <Unknown /> : formatInt(count)),
                { ...RIGHT, hint: t("Different kernels, by short name") },
              ],
            ]}
          />
        );
      }}
    </Loaded>
  );
}

type Sums = Pick<KernelSummaryAll, "gpu_time_ns" | "count">;
type DetailsRow = Sums & { readonly label: string; readonly swatch: string };

function withoutPart(all: Sums, part: Sums): Sums {
  const less = (one: number | null, other: number | null) =>
    one === null ? null : one - (other ?? 0);
  return {
    gpu_time_ns: less(all.gpu_time_ns, part.gpu_time_ns),
    count: less(all.count, part.count),
  };
}
