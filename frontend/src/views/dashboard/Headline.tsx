/** The first screen's answer: what limits a step, where the step goes, the figures that matter. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ListPage } from "../../api/lists";
import type {
  Efficiency,
  GpusRow,
  OpSummary,
  OpsRow,
  PerformanceSummary,
  PhasesRow,
  ResourceUsage,
  Verdict,
} from "../../api/types";
import { ChartMenu } from "../../charts/ChartMenu";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { bytesText, durationText, exactNs, formatInt, formatPct } from "../../lib/units";
import { navigate } from "../../state/location";
import type { QueryPatch } from "../../state/query";
import { steadyOf, useScope, useScoped } from "../../state/scope";
import { Button } from "../../ui/Button";
import { LimitMark } from "../../ui/Limits";
import { type Explanation, InfoTip } from "../../ui/Popover";
import { Empty, ErrorNote, Loaded, Skeleton, Unknown } from "../../ui/states";
import { GPUS_PARAMS, MISSED_PARAMS, PHASES_PARAMS, useIsAllKnown } from "./arriving";
import { busyShare, missingText, type Source, slicesOf } from "./breakdown";
import { StackedBar } from "./StackedBar";
import { isProfiledOnly, StepChip, stepOf } from "./StepChip";
import { ViewLink } from "./ViewLink";

/** Sentences that are longer are set smaller: the answer takes two lines, not four. */
const LONG_SENTENCE = 110;

export function Headline() {
  const verdict = useScoped<Verdict>("verdict/");
  const summary = useScoped<PerformanceSummary>("performance-summary/");
  const usage = useScoped<ResourceUsage>("resource-usage/");
  const [isRaw, setRaw] = useState(false);
  const isKnown = useIsAllKnown();
  const failed = [verdict, summary].find((resource) => resource.error !== null);
  if (failed?.error != null) {
    return (
      <section class="panel headline span-12" aria-label={t("What limits a step")}>
        <ErrorNote error={failed.error} onRetry={failed.reload} />
      </section>
    );
  }
  if (!isKnown || verdict.data === null || summary.data === null) {
    return (
      <section class="panel headline span-12" aria-label={t("What limits a step")}>
        <Skeleton lines={6} height={22} />
      </section>
    );
  }
  const { sentence, limit, pace } = verdict.data;
  const isCorrected = !isProfiledOnly(summary.data) && usage.data?.corrected_cpu_pct != null;
  const source: Source = isCorrected && !isRaw ? "corrected_" : "";
  const spanNs = usage.data?.recorded_span_ns ?? null;
  return (
    <section class="panel headline span-12" aria-label={t("What limits a step")}>
      <div class="headline-top">
        <p
          class={`verdict ${limit === "unknown" ? "verdict-unknown" : ""} ${sentence.length > LONG_SENTENCE ? "is-long" : ""}`}
        >
          {sentence}
        </p>
        {spanNs === null && (
          <StepChip data={summary.data} isCorrected={isCorrected} isRaw={isRaw} onChange={setRaw} />
        )}
      </div>
      {pace !== null && (
        <p class="headline-note" role="note">
          {pace}
        </p>
      )}
      <StepLine data={summary.data} spanNs={spanNs} />
      <Loaded resource={usage}>
        {(data) => (
          <Breakdown
            usage={data}
            source={source}
            stepNs={spanNs ?? wholeOf(summary.data, source)}
          />
        )}
      </Loaded>
      <Figures data={summary.data} />
    </section>
  );
}

/** The step that a breakdown is of; the one of the profiled steps is a mean. */
function wholeOf(data: PerformanceSummary | null, source: Source): number | null {
  if (data === null) return null;
  if (source === "") return data.step_mean_ns ?? data.iter_avg_ns;
  return data.bare_step_ns ?? data.corrected_step_ns;
}

/** What a step takes, and of which steps that is said; without any, the recorded span. */
function StepLine({ data, spanNs }: { data: PerformanceSummary; spanNs: number | null }) {
  const { ns, words } = spanNs === null ? stepOf(data) : { ns: spanNs, words: t("Recorded span") };
  const isMean = data.step_statistic === "mean";
  const median = isMean ? data.step_median_ns : null;
  const isProfiled = isProfiledOnly(data);
  const profiled = isProfiled ? null : data.step_ns;
  return (
    <p class="headline-step">
      <span>
        <ViewLink class="figure-link" view="iterations">
          {words}
        </ViewLink>
        <InfoTip
          about={words}
          text={spanNs === null ? EXPLANATIONS.stepTime : EXPLANATIONS.recordedSpan}
        />
        <LimitMark figure="step" />
        {ns === null ? (
          <Unknown reason={data.unknown?.iter_avg_ns} />
        ) : (
          <b title={exactNs(Math.round(ns))}>{durationText(ns)}</b>
        )}
      </span>
      {median !== null && <span>{t("median {time}", { time: durationText(median) })}</span>}
      {profiled !== null && (
        <span>{t("{time} as profiled", { time: durationText(profiled) })}</span>
      )}
      {isMean && data.uneven_reason && <span>{data.uneven_reason}</span>}
      <Range data={data} />
    </p>
  );
}

/** Which iterations these are, with the way from the steps alone to the whole run and back. */
function Range({ data }: { data: PerformanceSummary }) {
  const { aggregations, aggregation } = useScope();
  const isSteady = data.is_steady === 1;
  const other = isSteady ? (aggregations[0] ?? null) : steadyOf(aggregations);
  const notes = [data.steady_note, data.recorded_note].filter(Boolean);
  return (
    <span class="headline-range" title={notes.join("\n")}>
      {data.iter_start !== null && data.iter_stop !== null && (
        <ViewLink class="figure-link" view="iterations">
          {t("iterations {first}–{last}", { first: data.iter_start, last: data.iter_stop })}
          {isSteady && ` (${t("no start-up")})`}
        </ViewLink>
      )}
      {other !== null && other.id !== aggregation.id && (
        <Button class="link-button" onClick={() => navigate({ aggregation: String(other.id) })}>
          {isSteady ? t("Show all iterations") : t("Leave out start-up")}
        </Button>
      )}
    </span>
  );
}

interface BreakdownProps {
  readonly usage: ResourceUsage;
  readonly source: Source;
  readonly stepNs: number | null;
}

/** The step as one bar, under two brackets: the GPU works, the GPU is idle. */
function Breakdown({ usage, source, stepNs }: BreakdownProps) {
  const slices = slicesOf(usage, source);
  if (slices.length === 0) return <Empty title={t("This database has no breakdown")} />;
  const busy = busyShare(slices);
  const missing = missingText(usage);
  const title =
    usage.recorded_span_ns === null
      ? t("Step time breakdown (mean)")
      : t("Breakdown of the recorded span");
  const timed =
    stepNs === null
      ? {}
      : { valueText: ({ value }: { value: number }) => durationText((stepNs * value) / 100) };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls of a form
    <div class="breakdown" role="group" aria-label={t("Resource usage breakdown")}>
      <div class="brackets">
        {busy > 0 && (
          <span style={{ flexGrow: busy }}>
            {t("GPU busy")} <LimitMark figure="gpu_busy" />
            {formatPct(busy)} %
            <span class="bracket-source">
              {source === "" ? t("as profiled") : t("without profiling")}
            </span>
          </span>
        )}
        {busy < 100 && (
          <span style={{ flexGrow: 100 - busy }}>
            {t("GPU idle")} <LimitMark figure="gpu_idle" />
            {formatPct(100 - busy)} %
          </span>
        )}
      </div>
      <StackedBar label={title} slices={slices} height={30} isInline {...timed} />
      <span class="breakdown-tools">
        <InfoTip about={title} text={EXPLANATIONS.resourceUsage} />
        <ChartMenu figure="resource-usage" />
      </span>
      {missing !== "" && <p class="headline-note">{missing}</p>}
    </div>
  );
}

function Figure(props: {
  title: string;
  info: Explanation;
  /** The view that lists what the figure is made of. */
  view: string;
  patch?: QueryPatch;
  mark?: string;
  note?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <div class="figure">
      <dt>
        <ViewLink class="figure-link" view={props.view} patch={props.patch ?? {}}>
          {props.title}
        </ViewLink>
        <InfoTip about={props.title} text={props.info} />
      </dt>
      <dd>
        {props.mark !== undefined && <LimitMark figure={props.mark} />}
        <b>{props.children}</b>
        {props.note !== undefined && <span class="muted">{props.note}</span>}
      </dd>
    </div>
  );
}

function Pct({ pct, reason }: { pct: number | null; reason?: string | undefined }) {
  return pct === null ? <Unknown reason={reason} /> : <>{formatPct(pct)} %</>;
}

/** One line with what else is asked first. */
function Figures({ data }: { data: PerformanceSummary }) {
  const usage = useScoped<ResourceUsage>("resource-usage/").data;
  const efficiency = useScoped<Efficiency>("efficiency/").data;
  const ranks = Number(useScope().profile.info.rank_count ?? 0);
  const hasCosts = useScope().profile.info.has_costs === "1";
  const exposed = usage?.communication_pct ?? 0;
  const atLeast = efficiency?.median_step_mfu_at_least_pct ?? 0;
  const mfu = efficiency?.median_step_mfu_pct ?? null;
  return (
    <dl class="figures">
      <TensorCores data={data} />
      <Figure
        title={t("MFU")}
        info={EXPLANATIONS.efficiency}
        view={hasCosts ? "roofline" : "ops"}
        mark="flops"
        note={
          mfu === null && atLeast > 0
            ? t("at least {pct} %", { pct: formatPct(atLeast) })
            : mfu !== null && !isProfiledOnly(data)
              ? t("as profiled")
              : undefined
        }
      >
        <Pct pct={mfu} reason={efficiency?.unknown?.median_step_mfu_pct} />
      </Figure>
      {exposed > 0 && (
        <Figure
          title={t("Exposed communication")}
          info={EXPLANATIONS.communication}
          view={ranks > 1 ? "ranks" : "gpus"}
          mark="rank_waiting"
        >
          <Pct pct={exposed} />
        </Figure>
      )}
      <Throughput data={data} />
      <PeakMemory />
      <Figure title={t("Iterations")} info={EXPLANATIONS.iterations} view="iterations">
        {data.profiled_iterations === null ? (
          <Unknown reason={data.unknown?.profiled_iterations} />
        ) : (
          formatInt(data.profiled_iterations)
        )}
        {data.total_iterations !== null &&
          ` ${t("of {total}", { total: formatInt(data.total_iterations) })}`}
      </Figure>
    </dl>
  );
}

/** Ops that could use Tensor Cores and do not. */
const MISSED: QueryPatch = { "ops.f.tc_eligible": "1", "ops.f.using_tc": "0" };

/** Ops that take less of the GPU time are not worth a mention. Unit: percent. */
const LEAST_MISSED_PCT = 1;

function TensorCores({ data }: { data: PerformanceSummary }) {
  const ops = useScoped<OpSummary>("op-summary/").data;
  const count = useScoped<ListPage<OpsRow>>("ops/", MISSED_PARAMS).data?.count ?? null;
  const isKnown = data.tc_utilization_pct !== null && count !== null && ops !== null;
  const whole = ops?.all.gpu_time_ns ?? 0;
  const share = whole > 0 ? (100 * (ops?.eligible_not_using.gpu_time_ns ?? 0)) / whole : 0;
  const words = { ops: formatInt(count ?? 0), pct: formatPct(share) };
  const isMissed = isKnown && count > 0 && share >= LEAST_MISSED_PCT;
  return (
    <Figure
      title={t("Tensor Core use")}
      info={EXPLANATIONS.tcEfficiency}
      view="ops"
      patch={isKnown && count === 0 ? { "ops.f.tc_eligible": "1" } : MISSED}
      mark="tensor_cores"
      note={
        isMissed ? (
          <ViewLink class="link" view="ops" patch={MISSED}>
            {count === 1
              ? t("1 more op could ({pct} % of GPU time)", words)
              : t("{ops} more ops could ({pct} % of GPU time)", words)}
          </ViewLink>
        ) : undefined
      }
    >
      <Pct pct={data.tc_utilization_pct} reason={data.unknown?.tc_utilization_pct} />
    </Figure>
  );
}

/** Only where the program says how many tokens or samples it works on. */
function Throughput({ data }: { data: PerformanceSummary }) {
  const { info } = useScope().profile;
  const phases = useScoped<ListPage<PhasesRow>>("phases/", PHASES_PARAMS).data?.results ?? [];
  const [phase] = phases.toSorted((a, b) => (b.duration_ns ?? 0) - (a.duration_ns ?? 0));
  const rate = phase?.bare_tokens_per_second ?? phase?.tokens_per_second ?? null;
  const { ns } = stepOf(data);
  // A step that ends with the optimizer may have gone through several batches.
  const isBatch = (info.key_node ?? "").includes("DataLoader");
  const samples = Number(info.batch_size ?? 0) * Math.max(Number(info.rank_count ?? 0), 1);
  if (rate === null && ns !== null && isBatch && samples > 0) {
    return (
      <Figure title={t("Samples per second")} info={EXPLANATIONS.samples} view="iterations">
        {formatInt(Math.round((samples * 1e9) / ns))}
      </Figure>
    );
  }
  if (rate === null) return null;
  return (
    <Figure title={t("Tokens per second")} info={EXPLANATIONS.throughput} view="iterations">
      {formatInt(Math.round(rate))}
    </Figure>
  );
}

function PeakMemory() {
  const gpus = useScoped<ListPage<GpusRow>>("gpus/", GPUS_PARAMS).data?.results ?? [];
  const [most] = gpus.toSorted((a, b) => (b.memory_used_bytes ?? 0) - (a.memory_used_bytes ?? 0));
  if (most?.memory_used_bytes == null) return null;
  const total = most.memory_total_bytes;
  return (
    <Figure
      title={t("Peak memory")}
      info={EXPLANATIONS.peakMemory}
      view="gpus"
      note={total === null ? undefined : t("of {total}", { total: bytesText(total) })}
    >
      {bytesText(most.memory_used_bytes)}
    </Figure>
  );
}
