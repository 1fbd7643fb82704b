/** Iterations: how long each took and on what, which are aggregated, and the way to another choice. */

import { useMemo, useState } from "preact/hooks";
import { isReport } from "../../api/source";
import type { PerformanceSummary } from "../../api/types";
import { ChartMenu } from "../../charts/ChartMenu";
import { IterationChart } from "../../charts/IterationChart";
import { type IndexRange, panned } from "../../charts/iterationFigure";
import { t } from "../../i18n";
import { formatInt } from "../../lib/units";
import { navigate, useQuery } from "../../state/location";
import { parseIndexRange } from "../../state/query";
import { useScope, useScoped } from "../../state/scope";
import { UrlTable } from "../../table/DataTable";
import { ITERATIONS_TABLE } from "../../table/specs/iterations";
import { Button, IconButton } from "../../ui/Button";
import { Icon } from "../../ui/icons";
import { Segmented } from "../../ui/Segmented";
import { Unknown } from "../../ui/states";
import { ReaggregateForm } from "./ReaggregateForm";
import { type Draft, readDraft } from "./reaggregation";

const CHART_HEIGHT = 320;

export default function IterationsView() {
  const query = useQuery();
  const { aggregation } = useScope();
  const summary = useScoped<PerformanceSummary>("performance-summary/").data;
  const draft = readDraft(query, aggregation);
  const total = summary?.total_iterations ?? null;
  return (
    <div class="view view-iterations">
      <header class="view-head">
        <h1>{t("Iterations")}</h1>
        <Badges summary={summary} />
      </header>
      <ChartSection draft={draft} total={total} />
      {!isReport() && <ReaggregateForm draft={draft} last={total === null ? null : total - 1} />}
      <UrlTable
        spec={ITERATIONS_TABLE}
        path="iterations/"
        caption={t("Iterations")}
        title={<h2>{t("All intervals")}</h2>}
      />
    </div>
  );
}

function Badges({ summary }: { summary: PerformanceSummary | null }) {
  const badges = [
    [t("Total"), summary?.total_iterations],
    [t("Profiled"), summary?.profiled_iterations],
    [t("Start"), summary?.iter_start],
    [t("Stop"), summary?.iter_stop],
  ] as const;
  return (
    <dl class="badges">
      {badges.map(([label, value]) => (
        <div key={label} class="badge">
          <dt>{label}</dt>
          <dd>{value === null || value === undefined ? <Unknown /> : formatInt(value)}</dd>
        </div>
      ))}
    </dl>
  );
}

function ChartSection({ draft, total }: { draft: Draft; total: number | null }) {
  const query = useQuery();
  const range = query.get("range") === "profiled" ? "profiled" : "all";
  const zoom = parseIndexRange(query.get("zoom"));
  const [isCut, setCut] = useState(false);
  const [isFullHeight, setFullHeight] = useState(false);
  const onZoom = (next: IndexRange | null) =>
    navigate({ zoom: next === null ? null : `${next[0]}-${next[1]}` });
  const limits = useLimits(range, total);
  const move = (by: number) => {
    if (zoom !== null && limits !== null) onZoom(panned(zoom, by, limits));
  };
  const half = zoom === null ? 0 : Math.max(1, Math.round((zoom[1] - zoom[0] + 1) / 2));
  const bounds: IndexRange | null =
    draft.start === null || draft.stop === null ? null : [draft.start, draft.stop];
  return (
    <section class="panel panel-flush" aria-label={t("Iteration chart")}>
      <div class="chart-tools">
        <RangeToggle range={range} />
        {(isCut || isFullHeight) && (
          <Button aria-pressed={isFullHeight} onClick={() => setFullHeight(!isFullHeight)}>
            {t("Full height")}
          </Button>
        )}
        <span class="chart-hint">
          {zoom === null
            ? t("Drag over the bars to choose iterations; drag with Shift to move")
            : t("Zoomed to {first}–{last}", { first: zoom[0], last: zoom[1] })}
        </span>
        {zoom !== null && (
          <>
            <IconButton
              icon="chevronLeft"
              label={t("Earlier iterations")}
              disabled={limits === null || zoom[0] <= limits[0]}
              onClick={() => move(-half)}
            />
            <IconButton
              icon="chevronRight"
              label={t("Later iterations")}
              disabled={limits === null || zoom[1] >= limits[1]}
              onClick={() => move(half)}
            />
            <Button onClick={() => onZoom(null)}>
              <Icon name="zoomOut" /> {t("Reset zoom")}
            </Button>
          </>
        )}
        <ChartMenu figure="iteration-summary" />
      </div>
      <IterationChart
        height={CHART_HEIGHT}
        range={range}
        zoom={zoom}
        bounds={bounds}
        isFullHeight={isFullHeight}
        onZoom={onZoom}
        limits={limits}
        onCut={setCut}
      />
    </section>
  );
}

/** First and last iteration that the chart can show. */
function useLimits(range: "all" | "profiled", total: number | null): IndexRange | null {
  const { iter_start: start, iter_stop: stop } = useScope().aggregation;
  const first = range === "all" ? 0 : start;
  const last = range === "all" && total !== null ? total - 1 : stop;
  return useMemo(() => (first === null || last === null ? null : [first, last]), [first, last]);
}

function RangeToggle({ range }: { range: "all" | "profiled" }) {
  const choices = [
    ["all", t("All iterations")],
    ["profiled", t("Profiled iterations")],
  ] as const;
  return (
    <Segmented
      label={t("Iterations shown")}
      choices={choices}
      value={range}
      onChange={(value) => navigate({ range: value === "all" ? null : value, zoom: null })}
    />
  );
}
