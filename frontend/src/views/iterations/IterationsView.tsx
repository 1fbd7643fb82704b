/** Iterations: how long each took and on what, which are aggregated, and the way to another choice. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { isReport } from "../../api/source";
import type { Iteration, PerformanceSummary } from "../../api/types";
import { ChartMenu } from "../../charts/ChartMenu";
import { IterationChart } from "../../charts/IterationChart";
import type { IndexRange } from "../../charts/iterationFigure";
import { t } from "../../i18n";
import { formatInt } from "../../lib/units";
import { navigate, useQuery } from "../../state/location";
import { parseIndexRange } from "../../state/query";
import { useScope, useScoped } from "../../state/scope";
import { DataTable } from "../../table/DataTable";
import { ITERATIONS_TABLE } from "../../table/specs/iterations";
import { useUrlTable } from "../../table/useTableState";
import { Icon } from "../../ui/icons";
import { Unknown } from "../../ui/states";
import { ReaggregateForm } from "./ReaggregateForm";
import { type Draft, readDraft } from "./reaggregation";

const CHART_HEIGHT = 320;

export function IterationsView(): JSX.Element {
  const query = useQuery();
  const { aggregation } = useScope();
  const summary = useScoped<PerformanceSummary>("performance-summary/").data;
  const table = useUrlTable(ITERATIONS_TABLE, query);
  const draft = readDraft(query, aggregation);
  const total = summary?.total_iterations ?? null;
  return (
    <div class="view view-iterations">
      <header class="view-head">
        <h1>{t("Iterations")}</h1>
        <Badges summary={summary} />
      </header>
      <ChartSection draft={draft} />
      {!isReport() && <ReaggregateForm draft={draft} last={total === null ? null : total - 1} />}
      <DataTable<Iteration>
        spec={ITERATIONS_TABLE}
        control={table}
        path="iterations/"
        caption={t("Iterations")}
        title={<h2>{t("All intervals")}</h2>}
      />
    </div>
  );
}

function Badges({ summary }: { summary: PerformanceSummary | null }): JSX.Element {
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

function ChartSection({ draft }: { draft: Draft }): JSX.Element {
  const query = useQuery();
  const range = query.get("range") === "profiled" ? "profiled" : "all";
  const zoom = parseIndexRange(query.get("zoom"));
  const [isCut, setCut] = useState(false);
  const [isFullHeight, setFullHeight] = useState(false);
  const onZoom = (next: IndexRange | null) =>
    navigate({ zoom: next === null ? null : `${next[0]}-${next[1]}` });
  const bounds: IndexRange | null =
    draft.start === null || draft.stop === null ? null : [draft.start, draft.stop];
  return (
    <section class="panel panel-flush" aria-label={t("Iteration chart")}>
      <div class="chart-tools">
        <RangeToggle range={range} />
        {(isCut || isFullHeight) && (
          <button
            type="button"
            class="button"
            aria-pressed={isFullHeight}
            onClick={() => setFullHeight(!isFullHeight)}
          >
            {t("Full height")}
          </button>
        )}
        <span class="chart-hint">
          {zoom === null
            ? t("Drag over the bars to zoom")
            : t("Zoomed to {first}–{last}", { first: zoom[0], last: zoom[1] })}
        </span>
        {zoom !== null && (
          <button type="button" class="button" onClick={() => onZoom(null)}>
            <Icon name="zoomOut" /> {t("Reset zoom")}
          </button>
        )}
        <ChartMenu
          figure="iteration-summary"
          params={{ view: range, start: zoom?.[0], stop: zoom?.[1] }}
        />
      </div>
      <IterationChart
        height={CHART_HEIGHT}
        range={range}
        zoom={zoom}
        bounds={bounds}
        isFullHeight={isFullHeight}
        onZoom={onZoom}
        onCut={setCut}
      />
    </section>
  );
}

function RangeToggle({ range }: { range: "all" | "profiled" }): JSX.Element {
  const choices = [
    ["all", t("All iterations")],
    ["profiled", t("Profiled iterations")],
  ] as const;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset draws a frame of its own
    <div class="segmented" role="group" aria-label={t("Iterations shown")}>
      {choices.map(([value, label]) => (
        <button
          key={value}
          type="button"
          aria-pressed={range === value}
          onClick={() => navigate({ range: value === "all" ? null : value, zoom: null })}
        >
          {label}
        </button>
      ))}
    </div>
  );
}
