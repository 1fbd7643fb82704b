/** How sure the times are: measured without the profiler, or as profiled; and the way to know. */

import { useState } from "preact/hooks";
import { isReport } from "../../api/source";
import type { PerformanceSummary } from "../../api/types";
import { t } from "../../i18n";
import { timingCommand } from "../../lib/commands";
import { durationRange, durationText, formatInt, formatPct } from "../../lib/units";
import { useScope } from "../../state/scope";
import { AggregateButton } from "../../ui/AggregateButton";
import { Icon } from "../../ui/icons";
import { MenuButton } from "../../ui/Popover";
import { Segmented } from "../../ui/Segmented";
import { CopyCommand, Facts } from "../../ui/states";

/** Whether nothing is known of the step without the profiler. */
export function isProfiledOnly(data: PerformanceSummary): boolean {
  return data.bare_step_ns === null && data.given_step_ns === null;
}

/** The one step time of the page, with what it is. */
export function stepOf(data: PerformanceSummary): { ns: number | null; words: string } {
  const bare = data.bare_step_ns ?? data.given_step_ns;
  if (bare !== null) return { ns: bare, words: t("Step time (without profiling)") };
  // A database that counts steps and has none holds iterations alone.
  const ns = data.step_ns ?? (data.loop_steps === null ? data.iter_median_ns : null);
  if (ns === null) return { ns: data.iter_avg_ns, words: t("Average iteration time") };
  return data.step_statistic === "mean"
    ? { ns, words: t("Step time (mean, as profiled)") }
    : { ns, words: t("Step time (median, as profiled)") };
}

interface StepChipProps {
  readonly data: PerformanceSummary;
  /** Whether the breakdown of the step without profiling is known. */
  readonly isCorrected: boolean;
  readonly isRaw: boolean;
  readonly onChange: (isRaw: boolean) => void;
}

export function StepChip({ data, isCorrected, isRaw, onChange }: StepChipProps) {
  if (stepOf(data).ns === null) return null;
  const isProfiled = isProfiledOnly(data) || isRaw;
  const face = isProfiled ? t("as profiled") : t("without profiling");
  return (
    <MenuButton
      label={t("Times {kind}: what profiling costs", { kind: face })}
      class={`pill pill-large ${isProfiled ? "pill-warn" : ""}`}
      face={
        <>
          {face} <Icon name="chevronDown" size={12} />
        </>
      }
    >
      <div class="step-panel">
        <Times data={data} />
        {isCorrected && (
          <Segmented
            label={t("Which step is broken down")}
            choices={[
              [false, t("Without profiling")],
              [true, t("As profiled")],
            ]}
            value={isRaw}
            onChange={onChange}
          />
        )}
        {isProfiledOnly(data) && !isReport() && <Measure data={data} />}
      </div>
    </MenuButton>
  );
}

function Times({ data }: { data: PerformanceSummary }) {
  const range = (low: number | null, high: number | null) =>
    low === null || high === null ? "" : `p10–p90: ${durationRange(low, high)}`;
  const { bare_step_ns: bare, given_step_ns: given, overhead_pct: overhead } = data;
  const lines: readonly (readonly [string, readonly string[]])[] = [
    [
      t("As profiled"),
      [
        durationText(data.step_ns ?? data.iter_median_ns ?? data.iter_avg_ns ?? 0),
        range(data.step_p10_ns ?? data.iter_p10_ns, data.step_p90_ns ?? data.iter_p90_ns),
      ],
    ],
    [
      t("Without profiling"),
      bare !== null
        ? [
            durationText(bare),
            range(data.bare_step_p10_ns, data.bare_step_p90_ns),
            t("{n} steps", { n: formatInt(data.bare_steps ?? 0) }),
            overhead === null ? "" : t("{pct} % overhead", { pct: formatPct(overhead) }),
          ]
        : given !== null
          ? [durationText(given), t("as given")]
          : [t("unknown")],
    ],
    ...(data.corrected_step_ns === null ? [] : [correctedLine(data)]),
  ];
  return (
    <Facts
      class="facts facts-narrow"
      facts={lines.map(([title, parts]) => [title, parts.filter(Boolean).join(" · ")])}
    />
  );
}

/** What a step waits for, as parts of a sentence. */
const LIMITS: Record<string, (pct: string) => string> = {
  gpu: (pct: string) => t("{pct} % waits for the GPU", { pct }),
  cpu: (pct: string) => t("{pct} % waits for the CPU", { pct }),
  loader: (pct: string) => t("{pct} % waits for input", { pct }),
  communication: (pct: string) => t("{pct} % waits for communication", { pct }),
};

function correctedLine(data: PerformanceSummary): readonly [string, readonly string[]] {
  const shares: Record<string, number | null> = {
    gpu: data.waits_for_gpu_pct,
    cpu: data.waits_for_cpu_pct,
    loader: data.waits_for_loader_pct,
    communication: data.waits_for_communication_pct,
  };
  const limit = data.corrected_limit ?? "";
  const share = shares[limit] ?? null;
  const busy = data.corrected_busy_pct;
  return [
    t("Corrected for profiling"),
    [
      busy === null ? "" : t("GPU busy {pct} %", { pct: formatPct(busy) }),
      share === null ? "" : (LIMITS[limit]?.(formatPct(share)) ?? ""),
      data.corrected_unexplained_ns
        ? t("{time} not explained", { time: durationText(data.corrected_unexplained_ns) })
        : "",
    ],
  ];
}

/** The command that times the step, and a field for who knows the time: an aggregation stores it. */
function Measure({ data }: { data: PerformanceSummary }) {
  const { aggregation, profile } = useScope();
  const [text, setText] = useState("");
  const ns = Math.round(Number(text) * 1e6);
  const isTime = text.trim() !== "" && Number.isFinite(ns) && ns > 0;
  return (
    <>
      <p>{t("How much of the step is the profiler's is unknown. To time it without, run:")}</p>
      <CopyCommand command={timingCommand(profile.system_config.original_command)} />
      {data.bare_step_reason && <p class="muted">{data.bare_step_reason}</p>}
      {profile.can_reaggregate && data.step_ns !== null && (
        <div class="bare-step">
          <label>
            {t("Or enter the time by the program's own clock, in ms:")}{" "}
            <input
              class="input"
              type="number"
              min="0"
              step="any"
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          </label>
          <AggregateButton
            request={{
              iter_start: aggregation.iter_start,
              iter_stop: aggregation.iter_stop,
              phase: aggregation.phase ?? "",
              bare_step_ns: ns,
            }}
            disabledReason={isTime ? undefined : t("Enter what a step takes without dlprof.")}
          >
            {t("Use it")}
          </AggregateButton>
        </div>
      )}
    </>
  );
}
