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
import { known, Loaded } from "../../ui/states";

export function PerformanceSummary() {
  const summary = useScoped<Summary>("performance-summary/");
  return (
    <Panel title={t("Performance summary")} span={12}>
      <Loaded resource={summary}>{(data) => <Facts data={data} />}</Loaded>
    </Panel>
  );
}

/** The fields that are figures. */
type Key = {
  [Name in keyof Summary & string]: Summary[Name] extends number | null ? Name : never;
}[keyof Summary & string];

function Facts({ data }: { data: Summary }) {
  const value = (key: Key, draw: (value: number) => ComponentChildren) =>
    known(data[key], draw, data.unknown?.[key]);
  // One iteration has no spread; its deviation of 0 would only look like a good sign.
  const spread = (data.profiled_iterations ?? 0) > 1 ? data.iter_std_dev_ns : null;
  return (
    <>
      <dl class="facts facts-wide">
        <Fact title={t("Wall clock time")}>{value("wall_clock_time_ns", time)}</Fact>
        <Fact
          title={t("Average iteration time")}
          info={EXPLANATIONS.iterationTime}
          mark="step"
          isProfiled
        >
          {value("iter_avg_ns", time)}
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
          {value("gpu_utilization_pct", (pct) => share(pct, "gpu"))}
        </Fact>
        <Fact
          title={t("Tensor Core kernel efficiency")}
          info={EXPLANATIONS.tcEfficiency}
          mark="tensor_cores"
        >
          {value("tc_utilization_pct", (pct) => share(pct, "tc"))}
        </Fact>
        <Fact title={t("Total iterations")}>{value("total_iterations", formatInt)}</Fact>
        <Fact title={t("Profiled iterations")} info={EXPLANATIONS.iterations}>
          {value("profiled_iterations", formatInt)}
        </Fact>
        <Fact title={t("Start iteration")}>{value("iter_start", String)}</Fact>
        <Fact title={t("Stop iteration")}>{value("iter_stop", String)}</Fact>
      </dl>
      {[data.steady_note, data.recorded_note].filter(Boolean).map((note) => (
        <p key={note} class="panel-note">
          {note}
        </p>
      ))}
    </>
  );
}

function time(ns: number) {
  return <span title={exactNs(Math.round(ns))}>{durationText(ns)}</span>;
}

function share(pct: number, tone: string) {
  return (
    <span title={`${pct} %`}>
      {formatPct(pct)} %
      <span class="meter" aria-hidden="true">
        <span class={`meter-${tone}`} style={{ width: `${Math.min(100, pct)}%` }} />
      </span>
    </span>
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
