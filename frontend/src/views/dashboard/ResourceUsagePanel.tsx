/** Where an iteration goes: one stacked bar over all of the aggregated time. */

import type { JSX } from "preact";
import type { PerformanceSummary, ResourceUsage } from "../../api/types";
import { ChartMenu } from "../../charts/ChartMenu";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { PARTS, type PartKey, RARE_PARTS, type Slice } from "../../lib/parts";
import { durationText, formatTimeIn, pickTimeUnit } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded } from "../../ui/states";
import { StackedBar } from "./StackedBar";

/** Communication is a part of its own here; the API counts it among the other kernels. */
function shareOf(usage: ResourceUsage, part: PartKey): number | null {
  const value = usage[`${part}_pct`];
  if (part !== "non_tc" || value === null) return value;
  return Math.max(0, value - (usage.communication_pct ?? 0));
}

function slicesOf(usage: ResourceUsage): readonly Slice[] {
  return PARTS.flatMap((part) => {
    const value = shareOf(usage, part.key);
    const isAbsent = value === null || (RARE_PARTS.has(part.key) && value === 0);
    return isAbsent ? [] : [{ key: part.key, label: part.label, hint: part.hint, value }];
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

export function ResourceUsagePanel(): JSX.Element {
  const usage = useScoped<ResourceUsage>("resource-usage/");
  const average = useScoped<PerformanceSummary>("performance-summary/").data?.iter_avg_ns ?? null;
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
          const slices = slicesOf(data);
          if (slices.length === 0) return <Empty title={t("This database has no breakdown")} />;
          const missing = missingText(data);
          return (
            <>
              {average !== null && (
                <p class="panel-lead">
                  {t("Breakdown of the mean iteration, {time}", {
                    time: durationText(average),
                  })}
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
