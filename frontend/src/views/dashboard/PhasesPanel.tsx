/** Prefill, decode, training: what each kind of iteration takes. Absent if the program names none. */

import type { ListPage } from "../../api/lists";
import { isReport } from "../../api/source";
import type { PhasesRow } from "../../api/types";
import { t } from "../../i18n";
import { phaseName } from "../../lib/aggregations";
import { durationText, exactNs, formatFixed, formatInt, formatPct } from "../../lib/units";
import { useScope, useScoped } from "../../state/scope";
import { PHASES } from "../../table/declared";
import { AggregateButton } from "../../ui/AggregateButton";
import { ColumnsTable, RIGHT, type TableColumn } from "../../ui/ColumnsTable";
import { Panel } from "../../ui/Panel";
import { known } from "../../ui/states";
import { PHASES_PARAMS } from "./arriving";
import { ViewLink } from "./ViewLink";

const WHEN_NULL: ReadonlyMap<string, string | undefined> = new Map(
  PHASES.map(({ key, whenNull }) => [key, whenNull]),
);

const formatMean = (value: number) => formatFixed(value, Number.isInteger(value) ? 0 : 1);
const rounded = (value: number) => formatInt(Math.round(value));
const pct = (value: number) => `${formatPct(value)} %`;

function meanOf({ duration_ns, iterations }: PhasesRow): number | null {
  return duration_ns === null || !iterations ? null : Math.round(duration_ns / iterations);
}

/** With a rate of steps without profiling only if steps of a phase were timed so. */
function columnsOf(
  hasBare: boolean,
  unknown: Readonly<Record<string, string>>,
): readonly TableColumn<PhasesRow>[] {
  const reason = (key: string) => unknown[key] ?? WHEN_NULL.get(key);
  const column = (
    title: string,
    key: Exclude<keyof PhasesRow & string, "phase">,
    text: (value: number) => string,
  ): TableColumn<PhasesRow> => [title, (row) => known(row[key], text, reason(key)), RIGHT];
  return [
    [t("Phase"), (row) => phaseName(row.phase ?? ""), { isHead: true }],
    column(t("Iterations"), "iterations", formatInt),
    column(t("Sequences"), "sequences", formatMean),
    [
      t("Time of one, as profiled"),
      (row) => known(meanOf(row), durationText, reason("duration_ns")),
      {
        ...RIGHT,
        tip: (row) => (row.duration_ns === null ? undefined : exactNs(meanOf(row) ?? 0)),
      },
    ],
    column(t("Tokens per second"), "tokens_per_second", rounded),
    ...(hasBare
      ? [column(t("Tokens per second, not profiled"), "bare_tokens_per_second", rounded)]
      : []),
    column(t("Token interval"), "token_interval_ns", durationText),
    column(t("Micro steps"), "micro_steps", rounded),
    column(t("GPU busy, as profiled"), "gpu_busy_pct", pct),
    column(t("Bandwidth, at least"), "bandwidth_pct", pct),
  ];
}

export function PhasesPanel() {
  const phases = useScoped<ListPage<PhasesRow>>("phases/", PHASES_PARAMS);
  const { profile } = useScope();
  const { data } = phases;
  if (data === null || !data.results.some((row, place) => place > 0 || isTelling(row))) return null;
  const hasBare = data.results.some((row) => row.bare_tokens_per_second !== null);
  const canAggregate = !isReport() && profile.can_reaggregate;
  return (
    <Panel
      title={t("Phases")}
      span={12}
      actions={<ViewLink view="iterations">{t("Iterations view")}</ViewLink>}
    >
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset draws a frame of its own */}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must have the focus to be scrolled by key */}
      <div class="phases-scroll" role="group" aria-label={t("Phases")} tabIndex={0}>
        <ColumnsTable<PhasesRow>
          class="facts-table"
          rows={data.results}
          rowKey={(row) => row.phase ?? ""}
          columns={columnsOf(hasBare, data.unknown ?? {})}
        />
      </div>
      {canAggregate && (
        <div class="phase-actions">
          {data.results.map((row) => (
            <Aggregate key={row.phase} phase={row.phase ?? ""} />
          ))}
        </div>
      )}
    </Panel>
  );
}

/** Whether the row says more than that the program trains. */
function isTelling({ phase, tokens_per_second, micro_steps }: PhasesRow): boolean {
  return phase !== "train" || tokens_per_second !== null || (micro_steps ?? 1) > 1;
}

/** An aggregation of those iterations of the shown one that belong to one phase. */
function Aggregate({ phase }: { phase: string }) {
  const { aggregation, profile } = useScope();
  const { iter_start, iter_stop } = aggregation;
  const isShown = aggregation.phase === phase;
  const isWhole = iter_start === 0 && iter_stop === (profile.iteration_count ?? 0) - 1;
  return (
    <AggregateButton
      request={isWhole ? { phase } : { phase, iter_start, iter_stop }}
      disabledReason={isShown ? t("This aggregation has these iterations.") : undefined}
    >
      {t("Aggregate {phase} only", { phase: phaseName(phase) })}
    </AggregateButton>
  );
}
