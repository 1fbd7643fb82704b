/** DLProf's panel of figures, under the names of its guide. */

import type { ComponentChildren } from "preact";
import type { PerformanceSummary as Summary } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { durationText, exactNs, formatInt, formatPct } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { LimitMark } from "../../ui/Limits";
import { Panel } from "../../ui/Panel";
import { type Explanation, InfoTip } from "../../ui/Popover";
import { Loaded, Unknown } from "../../ui/states";

export function PerformanceSummary() {
  const summary = useScoped<Summary>("performance-summary/");
  return (
    <Panel title={t("Performance summary")} span={12}>
      <Loaded resource={summary}>{(data) => <Facts data={data} />}</Loaded>
    </Panel>
  );
}

function Facts({ data }: { data: Summary }) {
  const time = (ns: number | null, key: keyof Summary & string) =>
    ns === null ? (
      <Unknown reason={data.unknown?.[key]} />
    ) : (
      <span title={exactNs(Math.round(ns))}>{durationText(ns)}</span>
    );
  const count = (value: number | null, key: keyof Summary & string) =>
    value === null ? <Unknown reason={data.unknown?.[key]} /> : formatInt(value);
  // One iteration has no spread; its deviation of 0 would only look like a good sign.
  const spread = (data.profiled_iterations ?? 0) > 1 ? data.iter_std_dev_ns : null;
  return (
    <>
      <dl class="facts facts-wide">
        <Fact title={t("Wall clock time")}>
          {time(data.wall_clock_time_ns, "wall_clock_time_ns")}
        </Fact>
        <Fact
          title={t("Average iteration time")}
          info={EXPLANATIONS.iterationTime}
          mark="step"
          isProfiled
        >
          {time(data.iter_avg_ns, "iter_avg_ns")}
          {spread !== null && (
            <span class="muted" title={t("Standard deviation: {time}", { time: exactNs(spread) })}>
              {` ± ${durationText(spread)}`}
            </span>
          )}
        </Fact>
        <Fact
          title={t("GPU utilization")}
          info={EXPLANATIONS.gpuUtilization}
          mark="gpu_busy"
          isProfiled
        >
          <Share
            pct={data.gpu_utilization_pct}
            tone="gpu"
            reason={data.unknown?.gpu_utilization_pct}
          />
        </Fact>
        <Fact
          title={t("Tensor Core kernel efficiency")}
          info={EXPLANATIONS.tcEfficiency}
          mark="tensor_cores"
        >
          <Share
            pct={data.tc_utilization_pct}
            tone="tc"
            reason={data.unknown?.tc_utilization_pct}
          />
        </Fact>
        <Fact title={t("Total iterations")}>
          {count(data.total_iterations, "total_iterations")}
        </Fact>
        <Fact title={t("Profiled iterations")} info={EXPLANATIONS.iterations}>
          {count(data.profiled_iterations, "profiled_iterations")}
        </Fact>
        <Fact title={t("Start iteration")}>{data.iter_start ?? <Unknown />}</Fact>
        <Fact title={t("Stop iteration")}>{data.iter_stop ?? <Unknown />}</Fact>
      </dl>
      {[data.steady_note, data.recorded_note].filter(Boolean).map((note) => (
        <p key={note} class="panel-note">
          {note}
        </p>
      ))}
    </>
  );
}

function Fact(props: {
  title: string;
  info?: Explanation;
  mark?: string;
  /** Whether the profiler's own time is in it. */
  isProfiled?: boolean;
  children: ComponentChildren;
}) {
  return (
    <div>
      <dt>
        {props.title}
        {props.isProfiled && <span class="fact-kind">{t("as profiled")}</span>}
        {props.info !== undefined && <InfoTip about={props.title} text={props.info} />}
      </dt>
      <dd>
        {props.mark !== undefined && <LimitMark figure={props.mark} />}
        {props.children}
      </dd>
    </div>
  );
}

function Share(props: { pct: number | null; tone: string; reason?: string | undefined }) {
  const { pct } = props;
  if (pct === null) return <Unknown reason={props.reason} />;
  return (
    <span title={`${pct} %`}>
      {formatPct(pct)} %
      <span class="meter" aria-hidden="true">
        <span class={`meter-${props.tone}`} style={{ width: `${Math.min(100, pct)}%` }} />
      </span>
    </span>
  );
}
