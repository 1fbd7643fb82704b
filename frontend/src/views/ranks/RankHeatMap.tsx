/** How long the others waited for each rank in each iteration; a cell leads to its collectives. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { type ApiError, isAbort, toApiError } from "../../api/client";
import type { RankIterationsRow, Stragglers } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { durationText, formatInt, formatPct } from "../../lib/units";
import { navigate } from "../../state/location";
import { scopedUrl, useScope } from "../../state/scope";
import { type Fetched, fetchRows } from "../../table/fetchRows";
import { Panel } from "../../ui/Panel";
import { ErrorNote, Skeleton } from "../../ui/states";
import { type HeatCell, type HeatMap, heatMap } from "./heat";

const ROW_PX = 20;
/** A cell without waiting is still seen as a cell. */
const FAINTEST = 0.06;

function useRows(): { found: Fetched<RankIterationsRow> | null; error: ApiError | null } {
  const base = scopedUrl(useScope(), "rank-iterations/");
  const [found, setFound] = useState<Fetched<RankIterationsRow> | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    let isWanted = true;
    setFound(null);
    setError(null);
    fetchRows<RankIterationsRow>((page, size) => `${base}&page=${page}&page_size=${size}`)
      .then((rows) => isWanted && setFound(rows))
      .catch((reason: unknown) => {
        if (isWanted && !isAbort(reason)) setError(toApiError(reason));
      });
    return () => {
      isWanted = false;
    };
  }, [base]);
  return { found, error };
}

function showCollectives(cell: HeatCell): void {
  const bounds = { rank: [cell.rank, cell.rank], iteration_index: [cell.first, cell.last] };
  const filters = Object.entries(bounds).flatMap(([name, [low, high]]) => [
    [`collectives.f.${name}__gte`, String(low)],
    [`collectives.f.${name}__lte`, String(high)],
  ]);
  navigate({ ...Object.fromEntries(filters), "collectives.page": null });
}

function cellText({ rank, first, last, value }: HeatCell): string {
  const iterations =
    first === last
      ? t("Iteration {iteration}", { iteration: first })
      : t("Iterations {first}–{last}", { first, last });
  const time = value === null ? t("Not known.") : durationText(value);
  return `${t("Rank {rank}", { rank })}, ${iterations}: ${time}`;
}

export function RankHeatMap() {
  const { found, error } = useRows();
  const map = useMemo(() => (found === null ? null : heatMap(found.rows)), [found]);
  if (found !== null && map === null) return null;
  return (
    <Panel
      title={t("Waiting for each rank, by iteration")}
      info={EXPLANATIONS.rankIterations}
      span={12}
    >
      {error !== null && <ErrorNote error={error} />}
      {error === null && map === null && <Skeleton lines={3} height={ROW_PX} />}
      {map !== null && <Cells map={map} />}
      {found !== null && found.rows.length < found.count && (
        <p class="left-out">
          {t("Only the first {shown} of {count} values are shown.", {
            shown: formatInt(found.rows.length),
            count: formatInt(found.count),
          })}
        </p>
      )}
    </Panel>
  );
}

/** `label`: what it shows, where that is not the waiting for each rank. */
export function Cells({ map, label }: { map: HeatMap; label?: string }) {
  const width = 100 / map.columns;
  const worst = map.cells.reduce((best, cell) =>
    (cell.value ?? 0) > (best.value ?? 0) ? cell : best,
  );
  return (
    <div class="heat">
      <div class="heat-ranks" aria-hidden="true">
        {map.ranks.map((rank) => (
          <span key={rank}>{t("Rank {rank}", { rank })}</span>
        ))}
      </div>
      <svg
        class="heat-cells"
        height={ROW_PX * map.ranks.length}
        role="img"
        aria-label={
          label ??
          t("Heat map of {ranks} ranks; the longest wait: {cell}", {
            ranks: formatInt(map.ranks.length),
            cell: cellText(worst),
          })
        }
      >
        {map.cells.map((cell) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: a shortcut; the table has the filters
          <rect
            key={`${cell.rank} ${cell.column}`}
            class={cell.value === null ? "heat-unknown" : "heat-cell"}
            x={`${cell.column * width}%`}
            y={map.ranks.indexOf(cell.rank) * ROW_PX}
            width={`${width}%`}
            height={ROW_PX - 1}
            fill-opacity={
              cell.value === null
                ? undefined
                : FAINTEST + ((1 - FAINTEST) * cell.value) / Math.max(map.largest, 1)
            }
            onClick={() => showCollectives(cell)}
          >
            <title>{cellText(cell)}</title>
          </rect>
        ))}
      </svg>
      <div class="heat-axis">
        <span>{t("Iteration {iteration}", { iteration: map.first })}</span>
        <span>{t("Delay caused: 0 to {time}", { time: durationText(map.largest) })}</span>
        <span>{t("Iteration {iteration}", { iteration: map.last })}</span>
      </div>
    </div>
  );
}

function rowsOf(found: Stragglers): RankIterationsRow[] {
  return found.iterations.flatMap((step) =>
    found.ranks.map(({ rank }, place) => ({
      iteration_index: step.iteration_index,
      rank,
      collective_count: 0,
      waiting_ns: null,
      kept_waiting_ns: Math.max(step.late_ns[place] ?? 0, 0),
    })),
  );
}

export function SlowRanks({ found }: { found: Stragglers }) {
  const map = useMemo(() => heatMap(rowsOf(found)), [found]);
  return (
    <Panel title={t("Slow ranks")} info={EXPLANATIONS.slowRanks} span={12}>
      <p class="slow-rank-note">
        {t(
          "The mean step of {step} is {share} % longer than with all ranks at the median: {ideal}.",
          {
            step: durationText(found.mean_step_ns),
            ideal: durationText(found.ideal_step_ns),
            share: formatPct(100 * (found.slowdown - 1)),
          },
        )}{" "}
        {found.notes.join(" ")}
      </p>
      {map !== null && (
        <Cells
          map={map}
          label={t("Lateness of {ranks} ranks by iteration", { ranks: map.ranks.length })}
        />
      )}
    </Panel>
  );
}
