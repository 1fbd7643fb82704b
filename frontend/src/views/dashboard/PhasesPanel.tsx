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
import { Panel } from "../../ui/Panel";
import { Unknown } from "../../ui/states";
import { PHASES_PARAMS } from "./arriving";
import { ViewLink } from "./ViewLink";

const COLUMNS: readonly string[] = [
  t("Iterations"),
  t("Sequences"),
  t("Time of one, as profiled"),
  t("Tokens per second"),
  t("Token interval"),
  t("Micro steps"),
  t("GPU busy, as profiled"),
  t("Bandwidth, at least"),
];

/** Shown only if steps of a phase were timed without profiling. */
const BARE = t("Tokens per second, not profiled");

const WHEN_NULL: ReadonlyMap<string, string | undefined> = new Map(
  PHASES.map(({ key, whenNull }) => [key, whenNull]),
);

const formatMean = (value: number) => formatFixed(value, Number.isInteger(value) ? 0 : 1);
const pct = (value: number) => `${formatPct(value)} %`;

export function PhasesPanel() {
  const phases = useScoped<ListPage<PhasesRow>>("phases/", PHASES_PARAMS);
  const { profile } = useScope();
  const { data } = phases;
  if (data === null || !data.results.some((row, place) => place > 0 || isTelling(row))) return null;
  const hasBare = data.results.some((row) => row.bare_tokens_per_second !== null);
  const columns = hasBare ? [...COLUMNS.slice(0, 4), BARE, ...COLUMNS.slice(4)] : COLUMNS;
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
        <table class="facts-table">
          <thead>
            <tr>
              <th scope="col">{t("Phase")}</th>
              {columns.map((title) => (
                <th key={title} scope="col" class="align-right">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {data.results.map((row) => (
              <PhaseRow key={row.phase} row={row} hasBare={hasBare} unknown={data.unknown ?? {}} />
            ))}
          </tbody>
        </table>
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

function PhaseRow(props: {
  row: PhasesRow;
  hasBare: boolean;
  unknown: Readonly<Record<string, string>>;
}) {
  const { row } = props;
  const known = (value: number | null, text: (value: number) => string, name: string) =>
    value === null ? <Unknown reason={props.unknown[name] ?? WHEN_NULL.get(name)} /> : text(value);
  const mean =
    row.duration_ns === null || !row.iterations
      ? null
      : Math.round(row.duration_ns / row.iterations);
  return (
    <tr>
      <th scope="row">{phaseName(row.phase ?? "")}</th>
      <td class="align-right">{known(row.iterations, formatInt, "iterations")}</td>
      <td class="align-right">{known(row.sequences, formatMean, "sequences")}</td>
      <td class="align-right" title={mean === null ? undefined : exactNs(mean)}>
        {known(mean, durationText, "duration_ns")}
      </td>
      <td class="align-right">
        {known(row.tokens_per_second, (value) => formatInt(Math.round(value)), "tokens_per_second")}
      </td>
      {props.hasBare && (
        <td class="align-right">
          {known(
            row.bare_tokens_per_second,
            (value) => formatInt(Math.round(value)),
            "bare_tokens_per_second",
          )}
        </td>
      )}
      <td class="align-right">{known(row.token_interval_ns, durationText, "token_interval_ns")}</td>
      <td class="align-right">
        {known(row.micro_steps, (value) => formatInt(Math.round(value)), "micro_steps")}
      </td>
      <td class="align-right">{known(row.gpu_busy_pct, pct, "gpu_busy_pct")}</td>
      <td class="align-right">{known(row.bandwidth_pct, pct, "bandwidth_pct")}</td>
    </tr>
  );
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
