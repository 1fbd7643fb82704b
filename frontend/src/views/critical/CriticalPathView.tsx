/** What a step waits for, and what changes would give. */

import { useState } from "preact/hooks";
import type { CanReplay, CriticalPath } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { durationText, formatFixed, formatInt, formatPct } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { ColumnsTable, RIGHT } from "../../ui/ColumnsTable";
import { Direction } from "../../ui/Name";
import { opPage, PageAnchor } from "../../ui/PageLink";
import { Panel } from "../../ui/Panel";
import { Segmented } from "../../ui/Segmented";
import { Empty, Loaded, Skeleton } from "../../ui/states";
import { kindName, WhatIf } from "./WhatIf";

/** A smaller error of the simulation is none. */
const EXACT_PCT = 0.005;
const MOST_ROWS = 20;

export default function CriticalPathView() {
  const answer = useScoped<CanReplay>("can-replay/");
  return (
    <div class="view view-critical-path">
      <h1 class="visually-hidden">{t("Critical path")}</h1>
      <Loaded resource={answer} skeleton={<Skeleton lines={6} height={30} />}>
        {({ can_replay, reason }) =>
          can_replay ? <Replayed /> : <Empty title={t("Not known")}>{reason}</Empty>
        }
      </Loaded>
    </div>
  );
}

const STEPS: readonly (readonly [isRaw: boolean, text: string])[] = [
  [false, t("Without profiling")],
  [true, t("As profiled")],
];

function Replayed() {
  const [isRaw, setRaw] = useState(false);
  const path = useScoped<CriticalPath>("critical-path/", isRaw ? { corrected: 0 } : {});
  return (
    <Loaded resource={path} skeleton={<Skeleton lines={6} height={30} />}>
      {(found) => (
        <>
          {(found.is_corrected || isRaw) && (
            <Segmented label={t("Which step")} choices={STEPS} value={isRaw} onChange={setRaw} />
          )}
          <Fit found={found} />
          <WhatIf fit={found} />
          <Panel title={titleOf(found)} info={EXPLANATIONS.path} span={12}>
            <PathBar found={found} />
            <Shares found={found} />
          </Panel>
        </>
      )}
    </Loaded>
  );
}

/** Where no step was found, the recorded span stands for it. */
function titleOf(found: CriticalPath): string {
  return found.is_recorded_span
    ? t("Critical path of the recorded span")
    : t("Critical path of all steps");
}

const CONFIDENCE: Readonly<Record<string, string>> = {
  high: t("High confidence"),
  medium: t("Medium confidence"),
  low: t("Low confidence"),
};

function sumBy(found: CriticalPath): [kind: string, share: number][] {
  const sums = new Map<string, number>();
  for (const row of found.critical_path) {
    sums.set(row.kind, (sums.get(row.kind) ?? 0) + row.share_pct);
  }
  return [...sums.entries()].sort((a, b) => b[1] - a[1]);
}

/** What the step waits for most, and how well the replay fits. */
function Fit({ found }: { found: CriticalPath }) {
  const largest = sumBy(found).slice(0, 3);
  const parts = largest.map(([kind, share]) => `${kindName(kind)} ${formatPct(share)} %`);
  const waits = { step: durationText(found.measured_step_ns), parts: parts.join(", ") };
  const fit = {
    count: formatInt(found.iterations.length),
    median: formatFixed(found.error_pct.median, 2),
    worst: formatFixed(found.error_pct.worst, 2),
  };
  const isExact = found.error_pct.worst < EXACT_PCT;
  return (
    <div class="replay-fit">
      <p class="rank-verdict">
        {found.is_recorded_span
          ? t("Critical path of the recorded span, {step} as profiled: {parts}.", waits)
          : found.is_corrected
            ? t("Critical path of a {step} step: {parts}.", waits)
            : t("Critical path of a {step} step, as profiled: {parts}.", waits)}
      </p>
      <p class="muted">
        {CONFIDENCE[found.confidence] ?? found.confidence}.{" "}
        {found.is_recorded_span
          ? isExact
            ? t("The simulation reproduces it exactly.")
            : t("The simulation reproduces it within {worst} %.", fit)
          : isExact
            ? t("The simulation reproduces all {count} steps exactly.", fit)
            : t(
                "The simulation reproduces {count} steps within {median} % (median; at most {worst} %).",
                fit,
              )}{" "}
        {found.notes.join(" ")}
      </p>
    </div>
  );
}

/** What the step waits for, as one bar. */
function PathBar({ found }: { found: CriticalPath }) {
  const sums = sumBy(found);
  return (
    <div class="chain">
      <div class="chain-bar" aria-hidden="true">
        {sums.map(([kind, share]) => (
          <span
            key={kind}
            class={`chain-${kind}`}
            style={{ flexGrow: share }}
            title={`${kindName(kind)} ${formatPct(share)} %`}
          />
        ))}
      </div>
      <ul class="chain-legend">
        {sums.map(([kind, share]) => (
          <li key={kind}>
            <span class={`swatch chain-${kind}`} />
            {kindName(kind)} {formatPct(share)} %
          </li>
        ))}
      </ul>
    </div>
  );
}

function Shares({ found }: { found: CriticalPath }) {
  return (
    <ColumnsTable
      class="facts-table"
      caption={titleOf(found)}
      rows={found.critical_path.slice(0, MOST_ROWS)}
      rowKey={(row) => `${row.kind} ${row.owner}`}
      columns={[
        [t("Kind"), (row) => kindName(row.kind)],
        [
          t("Op or call"),
          (row) =>
            row.op_name === null ? (
              <span>{row.owner.replace(/_v\d+$/, "") || "–"}</span>
            ) : (
              <PageAnchor to={opPage(row.owner)} class="link">
                {row.op_name} <Direction value={row.direction} />
              </PageAnchor>
            ),
        ],
        [
          found.is_recorded_span ? t("Time") : t("Time in a step"),
          (row) => durationText(row.ns),
          RIGHT,
        ],
        [
          found.is_recorded_span ? t("Share") : t("Share of the step"),
          (row) => `${formatPct(row.share_pct)} %`,
          RIGHT,
        ],
      ]}
    />
  );
}
