/** The first row: the figures that matter most, each with the list behind it. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { ListPage } from "../../api/lists";
import { isReport } from "../../api/source";
import type {
  Efficiency,
  OpSummary,
  OpsRow,
  ResourceUsage,
  PerformanceSummary as Summary,
} from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import {
  countOf,
  durationRange,
  durationText,
  exactNs,
  formatDuration,
  formatInt,
  formatPct,
} from "../../lib/units";
import { navigate } from "../../state/location";
import type { QueryPatch } from "../../state/query";
import { steadyOf, useScope, useScoped } from "../../state/scope";
import { AggregateButton } from "../../ui/AggregateButton";
import { type Explanation, InfoTip } from "../../ui/Popover";
import { Loaded, Skeleton, Unknown } from "../../ui/states";
import { MISSED_PARAMS, useAreFiguresKnown } from "./arriving";
import { Spark } from "./Spark";
import { ViewLink } from "./ViewLink";

const OP_NOUN = [t("op"), t("ops")] as const;

export function PerformanceSummary(): JSX.Element {
  const areFiguresKnown = useAreFiguresKnown();
  const summary = useScoped<Summary>("performance-summary/");
  const missed = useMissed();
  const efficiency = useScoped<Efficiency>("efficiency/").data;
  return (
    <section class="kpis span-12" aria-label={t("Performance summary")}>
      <Loaded resource={summary} skeleton={<KpiSkeleton />}>
        {(data) =>
          areFiguresKnown ? (
            <>
              {data.recorded_note !== null && (
                <p class="kpi-note" role="note">
                  <strong>{t("Part of the run")}</strong>: {data.recorded_note}
                </p>
              )}
              <ReferenceLine data={data} />
              <CorrectedLine data={data} />
              <dl class="kpi-row">
                {data.iter_median_ns === null ? (
                  <IterationTime data={data} />
                ) : (
                  <StepTime data={data} />
                )}
                <Busy data={data} />
                <TensorCores data={data} missed={missed} />
                <Communication data={data} />
                <ModelFlops data={efficiency} />
                <Iterations data={data} />
              </dl>
              <SteadyLine data={data} />
            </>
          ) : (
            <KpiSkeleton />
          )
        }
      </Loaded>
    </section>
  );
}

function KpiSkeleton(): JSX.Element {
  return (
    <div class="kpi-row">
      {Array.from({ length: 5 }, (_, index) => (
        <div key={index} class="kpi">
          <Skeleton lines={2} height={18} />
        </div>
      ))}
    </div>
  );
}

function Kpi(props: {
  title: string;
  info: Explanation;
  isMain?: boolean;
  /** The view that lists what the figure is made of. */
  view: string;
  patch?: QueryPatch;
  value: ComponentChildren;
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class={`kpi ${props.isMain ? "kpi-main" : ""}`}>
      <dt>
        <ViewLink class="kpi-link" view={props.view} patch={props.patch ?? {}}>
          {props.title}
        </ViewLink>
        <InfoTip about={props.title} text={props.info} />
      </dt>
      <dd>
        <span class="kpi-value">{props.value}</span>
        {props.children}
      </dd>
    </div>
  );
}

function Time({ ns, reason }: { ns: number | null; reason: string | undefined }): JSX.Element {
  if (ns === null) return <Unknown reason={reason} />;
  const { value, unit } = formatDuration(ns);
  return (
    <span title={exactNs(ns)}>
      {value} <small>{unit}</small>
    </span>
  );
}

function IterationTime({ data }: { data: Summary }): JSX.Element {
  // One iteration has no spread; its deviation of 0 would only look like a good sign.
  const spread = (data.profiled_iterations ?? 0) > 1 ? data.iter_std_dev_ns : null;
  return (
    <Kpi
      title={t("Average iteration time")}
      info={EXPLANATIONS.iterationTime}
      view="iterations"
      isMain
      value={<Time ns={data.iter_avg_ns} reason={data.unknown?.iter_avg_ns} />}
    >
      <span class="kpi-side">
        <Spark />
        {spread !== null && (
          <span class="kpi-note" title={t("Standard deviation: {time}", { time: exactNs(spread) })}>
            ± {formatDuration(spread).value} {formatDuration(spread).unit}
          </span>
        )}
      </span>
    </Kpi>
  );
}

/** The step: without profiling if that is known, else as profiled; the other one is below it. */
function StepTime({ data }: { data: Summary }): JSX.Element {
  // Databases of versions that stored no steps have the iterations only.
  const profiled = data.step_ns ?? data.iter_median_ns;
  const bare = data.bare_step_ns ?? data.given_step_ns;
  const step = bare ?? profiled;
  const p10 = data.step_p10_ns ?? data.iter_p10_ns;
  const p90 = data.step_p90_ns ?? data.iter_p90_ns;
  const isMean = data.step_statistic === "mean";
  const asProfiled = isMean
    ? t("Step time (mean, as profiled)")
    : t("Step time (median, as profiled)");
  const title = bare === null ? asProfiled : t("Step time (without profiling)");
  return (
    <Kpi
      title={title}
      info={EXPLANATIONS.stepTime}
      view="iterations"
      isMain
      value={<Time ns={step} reason={data.unknown?.step_ns} />}
    >
      <span class="kpi-side">
        <Spark />
      </span>
      {bare !== null && profiled !== null && (
        <span class="kpi-note">{t("as profiled: {time}", { time: durationText(profiled) })}</span>
      )}
      {p10 !== null && p90 !== null && (data.step_count ?? data.steps ?? 0) > 1 && (
        <span
          class="kpi-note"
          title={t("10th to 90th percentile: {low} to {high}", {
            low: exactNs(p10),
            high: exactNs(p90),
          })}
        >
          p10–p90: {durationRange(p10, p90)}
          {isMean &&
            data.step_median_ns !== null &&
            ` · ${t("median {time}", { time: durationText(data.step_median_ns) })}`}
        </span>
      )}
      {isMean && data.uneven_reason && <span class="kpi-note">{data.uneven_reason}</span>}
    </Kpi>
  );
}

/** What a step takes without profiling, which is the run that matters. */
function ReferenceLine({ data }: { data: Summary }): JSX.Element | null {
  const { bare_step_ns: bare, overhead_pct: overhead } = data;
  const given = data.given_step_ns;
  if (bare === null && given !== null) {
    return (
      <p class="kpi-note" role="note">
        <strong>{t("Step without profiling")}</strong>: {durationText(given)} · {t("as given")}
      </p>
    );
  }
  if (bare === null && data.step_ns !== null && !isReport()) return <BareStep data={data} />;
  if (bare === null && data.bare_step_reason === null) return null;
  const parts =
    bare === null
      ? [t("unknown"), data.bare_step_reason ?? ""]
      : [
          durationText(bare),
          ...(data.bare_step_p10_ns === null || data.bare_step_p90_ns === null
            ? []
            : [`p10–p90: ${durationRange(data.bare_step_p10_ns, data.bare_step_p90_ns)}`]),
          t("{n} steps", { n: formatInt(data.bare_steps ?? 0) }),
          ...(overhead === null ? [] : [t("{pct} % overhead", { pct: formatPct(overhead) })]),
        ];
  return (
    <p class="kpi-note" role="note">
      <strong>{t("Step without profiling")}</strong>: {parts.filter(Boolean).join(" · ")}
    </p>
  );
}

/** That the step without profiling is unknown, with a field for it: an aggregation stores it. */
function BareStep({ data }: { data: Summary }): JSX.Element {
  const { aggregation } = useScope();
  const [text, setText] = useState("");
  const ns = Math.round(Number(text) * 1e6);
  const isTime = text.trim() !== "" && Number.isFinite(ns) && ns > 0;
  return (
    <div class="kpi-note bare-step" role="note">
      <span>
        <strong>{t("Step without profiling")}</strong>:{" "}
        {[t("unknown"), data.bare_step_reason ?? ""].filter(Boolean).join(" · ")}
      </span>
      <label>
        {t("By the program's own clock, in ms:")}{" "}
        <input
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
  );
}

/** What a step waits for, as parts of a sentence. */
const LIMITS: Record<string, (pct: string) => string> = {
  gpu: (pct: string) => t("{pct} % waits for the GPU", { pct }),
  cpu: (pct: string) => t("{pct} % waits for the CPU", { pct }),
  loader: (pct: string) => t("{pct} % waits for input", { pct }),
  communication: (pct: string) => t("{pct} % waits for communication", { pct }),
};

/** The step without what profiling costs; the figures below it are those of the profiled one. */
function CorrectedLine({ data }: { data: Summary }): JSX.Element | null {
  const busy = data.corrected_busy_pct;
  if (data.corrected_step_ns === null) return null;
  const shares: Record<string, number | null> = {
    gpu: data.waits_for_gpu_pct,
    cpu: data.waits_for_cpu_pct,
    loader: data.waits_for_loader_pct,
    communication: data.waits_for_communication_pct,
  };
  const limit = data.corrected_limit ?? "";
  const share = shares[limit] ?? null;
  const parts = [
    ...(busy === null ? [] : [t("GPU busy {pct} %", { pct: formatPct(busy) })]),
    ...(share === null ? [] : [LIMITS[limit]?.(formatPct(share)) ?? ""]),
    ...(data.corrected_unexplained_ns
      ? [t("{time} not explained", { time: durationText(data.corrected_unexplained_ns) })]
      : []),
  ];
  return (
    <p class="kpi-note" role="note">
      <strong>{t("Corrected for profiling")}</strong>: {parts.filter(Boolean).join(" · ")}
    </p>
  );
}

/** What the steady range leaves out and why, with the way from it to the whole run and back. */
function SteadyLine({ data }: { data: Summary }): JSX.Element | null {
  const { aggregations, aggregation } = useScope();
  const isSteady = data.is_steady === 1;
  const steady = steadyOf(aggregations);
  const other = isSteady ? (aggregations[0] ?? null) : steady;
  const hasSteady = Boolean(data.steady_note) && (isSteady || steady !== null);
  if (!hasSteady && isReport()) return null;
  return (
    <p class="kpi-line">
      {hasSteady && <span>{data.steady_note} </span>}
      {hasSteady && other !== null && other.id !== aggregation.id && (
        <button
          type="button"
          class="link-button"
          onClick={() => navigate({ aggregation: String(other.id) })}
        >
          {isSteady ? t("Show all iterations") : t("Show the steady range")}
        </button>
      )}
      {!isReport() && <ViewLink view="iterations">{t("Choose another range")}</ViewLink>}
    </p>
  );
}

function Pct(props: {
  title: string;
  info: Explanation;
  pct: number | null;
  reason: string | undefined;
  tone: string;
  view: string;
  patch?: QueryPatch;
  isMain?: boolean;
  note?: ComponentChildren;
}): JSX.Element {
  const { pct } = props;
  return (
    <Kpi
      title={props.title}
      info={props.info}
      isMain={props.isMain ?? false}
      view={props.view}
      patch={props.patch ?? {}}
      value={
        pct === null ? (
          <Unknown reason={props.reason} />
        ) : (
          <span title={`${pct} %`}>
            {formatPct(pct)} <small>%</small>
          </span>
        )
      }
    >
      {pct !== null && (
        <span class="meter" aria-hidden="true">
          <span class={`meter-${props.tone}`} style={{ width: `${Math.min(100, pct)}%` }} />
        </span>
      )}
      {props.note !== undefined && <span class="kpi-note">{props.note}</span>}
    </Kpi>
  );
}

/** Busy and idle time, which add up to the step. */
function Busy({ data }: { data: Summary }): JSX.Element {
  const usage = useScoped<ResourceUsage>("resource-usage/").data;
  // Databases of NVIDIA may lack the breakdown.
  const pct = usage?.busy_pct ?? data.gpu_utilization_pct;
  const idle = usage?.idle_pct ?? null;
  // A given step says nothing of its parts: those are of the profiled step.
  const isProfiled = data.bare_step_ns !== null && usage?.corrected_cpu_pct == null;
  const share = { pct: formatPct(idle ?? 0) };
  const note = isProfiled ? t("idle {pct} %, as profiled", share) : t("idle {pct} %", share);
  return (
    <Pct
      title={t("GPU busy")}
      info={EXPLANATIONS.gpuBusy}
      pct={pct}
      reason={data.unknown?.gpu_utilization_pct}
      tone="gpu"
      view="gpus"
      note={idle === null ? undefined : note}
    />
  );
}

/** Ops that could use Tensor Cores and do not. */
const MISSED: QueryPatch = { "ops.f.tc_eligible": "1", "ops.f.using_tc": "0" };

/** Ops that take less of the GPU time are not worth a mention. Unit: percent. */
const LEAST_MISSED_PCT = 1;

/** How many there are; null: not known yet. */
function useMissed(): number | null {
  const found = useScoped<ListPage<OpsRow>>("ops/", MISSED_PARAMS);
  return found.data?.count ?? null;
}

function TensorCores(props: { data: Summary; missed: number | null }): JSX.Element {
  const { data, missed: count } = props;
  const ops = useScoped<OpSummary>("op-summary/").data;
  const isKnown = data.tc_utilization_pct !== null && count !== null && ops !== null;
  const whole = ops?.all.gpu_time_ns ?? 0;
  const share = whole > 0 ? (100 * (ops?.eligible_not_using.gpu_time_ns ?? 0)) / whole : 0;
  return (
    <Pct
      title={t("Tensor Core use")}
      info={EXPLANATIONS.tcEfficiency}
      pct={data.tc_utilization_pct}
      reason={data.unknown?.tc_utilization_pct}
      tone="tc"
      isMain
      view="ops"
      patch={isKnown && count === 0 ? { "ops.f.tc_eligible": "1" } : MISSED}
      note={
        isKnown
          ? count > 0 && share >= LEAST_MISSED_PCT
            ? t("{ops} could and do not ({pct} % of the GPU time)", {
                ops: countOf(count, OP_NOUN),
                pct: formatPct(share),
              })
            : t("of the kernel time of ops that can use them")
          : undefined
      }
    />
  );
}

/** Only where GPUs communicate. */
function Communication({ data }: { data: Summary }): JSX.Element | null {
  const usage = useScoped<ResourceUsage>("resource-usage/").data;
  const ranks = Number(useScope().profile.info.rank_count ?? 0);
  const pct = usage?.communication_pct ?? null;
  if (pct === null || pct <= 0) return null;
  return (
    <Pct
      title={t("Exposed communication")}
      info={EXPLANATIONS.communication}
      pct={pct}
      reason={undefined}
      tone="communication"
      view={ranks > 1 ? "ranks" : "gpus"}
      note={
        data.iter_avg_ns === null
          ? undefined
          : t("{time} of the mean step", { time: durationText((pct / 100) * data.iter_avg_ns) })
      }
    />
  );
}

function ModelFlops({ data }: { data: Efficiency | null }): JSX.Element {
  const { profile } = useScope();
  const atLeast = data?.median_step_mfu_at_least_pct ?? null;
  const isKnown = (data?.median_step_mfu_pct ?? null) !== null;
  return (
    <Pct
      title={t("MFU")}
      info={EXPLANATIONS.efficiency}
      pct={data?.median_step_mfu_pct ?? null}
      reason={
        data?.unknown?.median_step_mfu_pct ??
        t(
          "Too few operations are known, or the program launches the steps faster than the GPU runs them.",
        )
      }
      tone="gpu"
      view={profile.info.has_costs === "1" ? "roofline" : "ops"}
      note={
        isKnown
          ? t("median step")
          : atLeast !== null && atLeast > 0
            ? t("at least {pct} %", { pct: formatPct(atLeast) })
            : undefined
      }
    />
  );
}

function Iterations({ data }: { data: Summary }): JSX.Element {
  const { profiled_iterations: profiled, total_iterations: total } = data;
  return (
    <Kpi
      title={t("Iterations")}
      info={EXPLANATIONS.iterations}
      view="iterations"
      value={
        profiled === null ? (
          <Unknown reason={data.unknown?.profiled_iterations} />
        ) : (
          <span title={t("Profiled iterations of total iterations")}>
            {formatInt(profiled)}
            {total !== null && <small> {t("of {total}", { total: formatInt(total) })}</small>}
          </span>
        )
      }
    >
      <span class="kpi-note">
        {t("Start")} <b>{data.iter_start ?? <Unknown />}</b> · {t("Stop")}{" "}
        <b>{data.iter_stop ?? <Unknown />}</b>
      </span>
      {data.wall_clock_time_ns !== null && (
        <span class="kpi-note" title={exactNs(data.wall_clock_time_ns)}>
          {t("{time} in all", { time: durationText(data.wall_clock_time_ns) })}
        </span>
      )}
    </Kpi>
  );
}
