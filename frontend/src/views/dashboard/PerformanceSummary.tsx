/** The first row: the five most important figures of the training. */

import type { ComponentChildren, JSX } from "preact";
import type { PerformanceSummary as Summary } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import {
  countOf,
  durationRange,
  exactNs,
  formatDuration,
  formatInt,
  formatPct,
} from "../../lib/units";
import { navigate } from "../../state/location";
import { steadyOf, useScope, useScoped } from "../../state/scope";
import { type Explanation, InfoTip } from "../../ui/Popover";
import { Loaded, Skeleton, Unknown } from "../../ui/states";
import { Spark } from "./Spark";

const ITERATION_NOUN = [t("iteration"), t("iterations")] as const;

export function PerformanceSummary(): JSX.Element {
  const summary = useScoped<Summary>("performance-summary/");
  return (
    <section class="kpis span-12" aria-label={t("Performance summary")}>
      <Loaded resource={summary} skeleton={<KpiSkeleton />}>
        {(data) => (
          <>
            <dl class="kpi-row">
              {data.is_steady === 1 ? <StepTime data={data} /> : <IterationTime data={data} />}
              <Pct
                title={t("GPU utilization")}
                info={EXPLANATIONS.gpuUtilization}
                pct={data.gpu_utilization_pct}
                reason={data.unknown?.gpu_utilization_pct}
                tone="gpu"
              />
              <Pct
                title={t("Tensor Core kernel efficiency")}
                info={EXPLANATIONS.tcEfficiency}
                pct={data.tc_utilization_pct}
                reason={data.unknown?.tc_utilization_pct}
                tone="tc"
                isMain
              />
              <WallClock data={data} />
              <Iterations data={data} />
            </dl>
            <SteadyLine data={data} />
          </>
        )}
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
  value: ComponentChildren;
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class={`kpi ${props.isMain ? "kpi-main" : ""}`}>
      <dt>
        {props.title}
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

/** The median step of the steady range, and between what times most steps lie. */
function StepTime({ data }: { data: Summary }): JSX.Element {
  const { iter_p10_ns: p10, iter_p90_ns: p90 } = data;
  return (
    <Kpi
      title={t("Median step time")}
      info={EXPLANATIONS.stepTime}
      isMain
      value={<Time ns={data.iter_median_ns} reason={data.unknown?.iter_median_ns} />}
    >
      <span class="kpi-side">
        <Spark />
      </span>
      {p10 !== null && p90 !== null && (
        <span
          class="kpi-note"
          title={t("10th to 90th percentile: {low} to {high}", {
            low: exactNs(p10),
            high: exactNs(p90),
          })}
        >
          p10–p90: {durationRange(p10, p90)}
        </span>
      )}
    </Kpi>
  );
}

/** What the steady range leaves out and why, with the way from it to the whole run and back. */
function SteadyLine({ data }: { data: Summary }): JSX.Element | null {
  const { aggregations, aggregation } = useScope();
  const isSteady = data.is_steady === 1;
  const steady = steadyOf(aggregations);
  const other = isSteady ? (aggregations[0] ?? null) : steady;
  if (!data.steady_note || (!isSteady && steady === null)) return null;
  return (
    <p class="kpi-line">
      {data.steady_note}{" "}
      {other !== null && other.id !== aggregation.id && (
        <button
          type="button"
          class="link-button"
          onClick={() => navigate({ aggregation: String(other.id) })}
        >
          {isSteady ? t("Show all iterations") : t("Show the steady range")}
        </button>
      )}
    </p>
  );
}

function Pct(props: {
  title: string;
  info: Explanation;
  pct: number | null;
  reason: string | undefined;
  tone: string;
  isMain?: boolean;
}): JSX.Element {
  const { pct } = props;
  return (
    <Kpi
      title={props.title}
      info={props.info}
      isMain={props.isMain ?? false}
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
    </Kpi>
  );
}

function WallClock({ data }: { data: Summary }): JSX.Element {
  return (
    <Kpi
      title={t("Wall clock time")}
      info={EXPLANATIONS.wallClock}
      value={<Time ns={data.wall_clock_time_ns} reason={data.unknown?.wall_clock_time_ns} />}
    >
      {data.profiled_iterations !== null && (
        <span class="kpi-note">
          {t("of {total}", { total: countOf(data.profiled_iterations, ITERATION_NOUN) })}
        </span>
      )}
    </Kpi>
  );
}

function Iterations({ data }: { data: Summary }): JSX.Element {
  const { profiled_iterations: profiled, total_iterations: total } = data;
  return (
    <Kpi
      title={t("Iterations")}
      info={EXPLANATIONS.iterations}
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
    </Kpi>
  );
}
