/** What the profiles of one name did over time: the step, its classes and its ops, and changes. */

import { apiUrl } from "../../api/client";
import type { History, HistoryTrend } from "../../api/types";
import { useResource } from "../../api/useResource";
import { t } from "../../i18n";
import { className } from "../../lib/timeClasses";
import { durationText } from "../../lib/units";
import { navigate, useQuery } from "../../state/location";
import { useScope } from "../../state/scope";
import { ColumnsTable } from "../../ui/ColumnsTable";
import { Name } from "../../ui/Name";
import { Panel } from "../../ui/Panel";
import { Segmented } from "../../ui/Segmented";
import { Empty, ErrorNote, Skeleton } from "../../ui/states";
import { NUMBER, TrialsPanel } from "./Trials";

const WIDTH = 420;
const HEIGHT = 44;
const MARGIN = 6;
const MOST_OPS = 50;

export default function HistoryView() {
  const query = useQuery();
  const { profile } = useScope();
  const isAll = query.get("all") === "1";
  const found = useResource<History>(apiUrl("history/", { profile: isAll ? null : profile.id }));
  return (
    <div class="view view-history">
      <h1 class="visually-hidden">{t("History")}</h1>
      <Panel
        title={t("History")}
        span={12}
        actions={
          <Segmented
            label={t("Profiles")}
            choices={[
              [false, t("Profiles of this name")],
              [true, t("All profiles")],
            ]}
            value={isAll}
            onChange={(value) => navigate({ all: value ? "1" : null })}
          />
        }
      >
        {found.error !== null && <ErrorNote error={found.error} onRetry={found.reload} />}
        {found.error === null && (found.data === null || found.isStale) && <Skeleton lines={8} />}
        {found.data !== null && !found.isStale && <Trends history={found.data} />}
      </Panel>
      <TrialsPanel />
    </div>
  );
}

function Trends({ history }: { history: History }) {
  const { profiles } = useScope();
  const nameOf = (id: string) => profiles.find((profile) => profile.id === id)?.name ?? id;
  const ops = history.trends.filter((trend) => trend.kind === "op");
  const shown = [
    ...history.trends.filter((trend) => trend.kind !== "op"),
    ...ops.slice(0, MOST_OPS),
  ];
  if (history.captures.length < 2) {
    return (
      <Empty title={t("History needs at least two profiles")}>
        {t("Add profiles of the same name, or choose all profiles.")}
      </Empty>
    );
  }
  const labels = history.captures.map((one) =>
    `${one.started_at ?? ""} ${nameOf(one.name)}`.trim(),
  );
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls by keyboard */}
      <section class="compare-rows" aria-label={t("Trend")} tabIndex={0}>
        <ColumnsTable<HistoryTrend>
          rows={shown}
          rowKey={(trend) => `${trend.kind} ${trend.name} ${trend.direction}`}
          columns={[
            [
              t("Time per step (mean, as profiled)"),
              (trend) => (trend.kind === "op" ? <Name name={nameIn(trend)} /> : nameIn(trend)),
              { isHead: true },
            ],
            [t("First"), ({ values_ns }) => durationText(values_ns[0] ?? 0), NUMBER],
            [t("Last"), ({ values_ns }) => durationText(values_ns.at(-1) ?? 0), NUMBER],
            [t("Trend"), (trend) => <Line trend={trend} labels={labels} />],
            [t("Changes"), (trend) => <Changes trend={trend} labels={labels} />],
          ]}
        />
      </section>
      {ops.length > MOST_OPS && <p>{t("{count} other ops", { count: ops.length - MOST_OPS })}</p>}
      {history.skipped.map((one) => (
        <p key={one.name}>
          {t("Left out: {name}. {reason}", { name: nameOf(one.name), reason: one.reason })}
        </p>
      ))}
    </>
  );
}

function nameIn({ kind, name, direction }: HistoryTrend): string {
  if (kind === "class") return className(name);
  return direction === "" ? name : `${name} (${direction})`;
}

interface TrendProps {
  readonly trend: HistoryTrend;
  readonly labels: readonly string[];
}

function Changes({ trend, labels }: TrendProps) {
  return (
    <>
      {trend.change_points.map((point) => (
        <p key={point.index} class={point.after_ns > point.before_ns ? "is-slower" : "is-faster"}>
          {t("{capture}: {before} → {after}", {
            capture: labels[point.index] ?? point.index,
            before: durationText(point.before_ns),
            after: durationText(point.after_ns),
          })}
        </p>
      ))}
    </>
  );
}

/** Points from zero up, joined, with a line at each change. */
function Line({ trend, labels }: TrendProps) {
  const values = trend.values_ns;
  const most = Math.max(...values, 1);
  const step = (WIDTH - 2 * MARGIN) / Math.max(values.length - 1, 1);
  const at = (index: number) => MARGIN + index * step;
  const height = (value: number) => HEIGHT - MARGIN - ((HEIGHT - 2 * MARGIN) * value) / most;
  const points = values.map((value, index) => `${at(index)},${height(value)}`).join(" ");
  return (
    <svg
      class="history-line"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={t("{name}: {first} to {last}", {
        name: trend.name,
        first: durationText(values[0] ?? 0),
        last: durationText(values.at(-1) ?? 0),
      })}
    >
      {trend.change_points.map((point) => (
        <line
          key={point.index}
          class="history-change"
          x1={at(point.index) - step / 2}
          x2={at(point.index) - step / 2}
          y1={0}
          y2={HEIGHT}
        />
      ))}
      <polyline points={points} />
      {values.map((value, index) => (
        <circle key={index} cx={at(index)} cy={height(value)} r={2.5}>
          <title>{`${labels[index] ?? index}: ${durationText(value)}`}</title>
        </circle>
      ))}
    </svg>
  );
}
