/** Where an iteration goes: one stacked bar over all of the aggregated time. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { PerformanceSummary, ResourceUsage } from "../../api/types";
import { ChartMenu } from "../../charts/ChartMenu";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { IDLE_PARTS, PARTS, type PartKey, RARE_PARTS, type Slice } from "../../lib/activities";
import { durationText, formatPct, formatTimeIn, pickTimeUnit } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { Segmented } from "../../ui/Segmented";
import { Empty, Loaded } from "../../ui/states";
import { StackedBar } from "./StackedBar";

/** Which step is broken down: that without profiling, or the one that was profiled. */
type Source = "corrected_" | "";

/** Communication is a part of its own here; the API counts it among the other kernels. */
function shareOf(usage: ResourceUsage, part: PartKey, source: Source): number | null {
  const value = usage[`${source}${part}_pct`];
  if (part !== "non_tc" || value === null) return value;
  return Math.max(0, value - (usage[`${source}communication_pct`] ?? 0));
}

function slicesOf(usage: ResourceUsage, source: Source): readonly Slice[] {
  return PARTS.flatMap((part) => {
    const value = shareOf(usage, part.key, source);
    const isAbsent = value === null || (RARE_PARTS.has(part.key) && value === 0);
    return isAbsent ? [] : [{ key: part.key, label: part.label, hint: part.hint, value }];
  });
}

/** Busy and idle add up to the step. */
function busyText(slices: readonly Slice[]): string {
  const total = slices.reduce((sum, slice) => sum + slice.value, 0);
  const idle = slices.filter((slice) => IDLE_PARTS.has(slice.key));
  const share = (100 * idle.reduce((sum, slice) => sum + slice.value, 0)) / Math.max(total, 1e-9);
  return t("GPU busy {busy} %, idle {idle} %", {
    busy: formatPct(100 - share),
    idle: formatPct(share),
  });
}

/** Parts the database does not know (older ones lack dataloader and I/O), in words. */
function missingText(usage: ResourceUsage): string {
  // Databases of NVIDIA count graphs and communication among the other kernels.
  const missing = PARTS.filter(
    (part) => !RARE_PARTS.has(part.key) && usage[`${part.key}_pct`] === null,
  );
  if (missing.length === 0) return "";
  const reason =
    usage.unknown?.[`${missing[0]?.key}_pct`] ?? t("The database does not contain it.");
  return `${t("Unknown: {parts}.", { parts: missing.map((part) => part.label).join(", ") })} ${reason}`;
}

const STEPS: readonly (readonly [isRaw: boolean, text: string])[] = [
  [false, t("Without profiling")],
  [true, t("As profiled")],
];

export function ResourceUsagePanel(): JSX.Element {
  const usage = useScoped<ResourceUsage>("resource-usage/");
  const summary = useScoped<PerformanceSummary>("performance-summary/").data;
  const [isRaw, setRaw] = useState(false);
  const bare = summary?.bare_step_ns ?? summary?.corrected_step_ns ?? null;
  const isCorrected = bare !== null && usage.data?.corrected_cpu_pct != null;
  const source: Source = isCorrected && !isRaw ? "corrected_" : "";
  const profiled = summary?.step_mean_ns ?? summary?.iter_avg_ns;
  const average = (source === "" ? profiled : bare) ?? null;
  // One unit for all parts, that of the whole.
  const unit = pickTimeUnit(average ?? 0);
  const perIteration = (slice: Slice) =>
    `${formatTimeIn(((average ?? 0) * slice.value) / 100, unit)} ${unit}`;
  return (
    <Panel
      title={t("Where a step goes")}
      info={EXPLANATIONS.resourceUsage}
      span={5}
      class="panel-usage"
      actions={<ChartMenu figure="resource-usage" />}
    >
      <Loaded resource={usage}>
        {(data) => {
          const slices = slicesOf(data, source);
          if (slices.length === 0) return <Empty title={t("This database has no breakdown")} />;
          const missing = missingText(data);
          return (
            <>
              {isCorrected && (
                <Segmented
                  label={t("Which step")}
                  choices={STEPS}
                  value={isRaw}
                  onChange={setRaw}
                />
              )}
              {average !== null && (
                <p class="panel-lead">
                  {source === ""
                    ? t("Mean step as profiled: {time}", { time: durationText(average) })
                    : t("Step without profiling: {time}", { time: durationText(average) })}
                  {" · "}
                  {busyText(slices)}
                </p>
              )}
              <StackedBar
                label={t("Resource usage")}
                slices={slices}
                height={36}
                {...(average === null ? {} : { valueText: perIteration })}
              />
              {missing !== "" && <p class="panel-note">{missing}</p>}
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
