/** What a step waits for, as a chain of one iteration, and what changes would give. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { CanReplay, CriticalPath } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { durationText, formatFixed, formatInt, formatPct } from "../../lib/units";
import { navigate } from "../../state/location";
import { useScoped } from "../../state/scope";
import { IconButton } from "../../ui/IconButton";
import { opPage, PageAnchor } from "../../ui/PageLink";
import { Panel } from "../../ui/Panel";
import { Segmented } from "../../ui/Segmented";
import { Empty, Loaded, Skeleton } from "../../ui/states";
import { type Piece, pieces } from "./scenario";
import { kindName, WhatIf } from "./WhatIf";

const CHAIN_WIDTH = 1000;
const CHAIN_HEIGHT = 44;
const MOST_ROWS = 20;

export function CriticalPathView(): JSX.Element {
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

function Replayed(): JSX.Element {
  const [iteration, setIteration] = useState<number | null>(null);
  const [isRaw, setRaw] = useState(false);
  const params = {
    ...(iteration === null ? {} : { iteration_index: iteration }),
    ...(isRaw ? { corrected: 0 } : {}),
  };
  const path = useScoped<CriticalPath>("critical-path/", params);
  return (
    <Loaded resource={path} skeleton={<Skeleton lines={6} height={30} />}>
      {(found) => (
        <>
          {(found.is_corrected || isRaw) && (
            <Segmented label={t("Which step")} choices={STEPS} value={isRaw} onChange={setRaw} />
          )}
          <Fit found={found} />
          <WhatIf fit={found} />
          <Panel
            title={t("Chain of iteration {iteration}", { iteration: found.iteration_index })}
            unit={durationText(found.step_ns)}
            info={EXPLANATIONS.chain}
            span={12}
            actions={<Steps found={found} onChange={setIteration} />}
          >
            <ChainStrip found={found} />
          </Panel>
          <Panel title={t("Critical path of all steps")} info={EXPLANATIONS.path} span={12}>
            <Shares found={found} />
          </Panel>
        </>
      )}
    </Loaded>
  );
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
function Fit({ found }: { found: CriticalPath }): JSX.Element {
  const largest = sumBy(found).slice(0, 3);
  const parts = largest.map(([kind, share]) => `${kindName(kind)} ${formatPct(share)} %`);
  const waits = { step: durationText(found.measured_step_ns), parts: parts.join(", ") };
  return (
    <div class="replay-fit">
      <p class="rank-verdict">
        {found.is_corrected
          ? t("Without profiling, the step of {step} waits for: {parts}.", waits)
          : t("As profiled, the step of {step} waits for: {parts}.", waits)}
      </p>
      <p class="muted">
        {CONFIDENCE[found.confidence] ?? found.confidence}.{" "}
        {t(
          "Steps replayed unchanged: {count}; error {median} % in the median, {worst} % at most.",
          {
            count: formatInt(found.iterations.length),
            median: formatFixed(found.error_pct.median, 2),
            worst: formatFixed(found.error_pct.worst, 2),
          },
        )}{" "}
        {found.notes.join(" ")}
      </p>
    </div>
  );
}

interface StepsProps {
  readonly found: CriticalPath;
  readonly onChange: (iteration: number) => void;
}

function Steps({ found, onChange }: StepsProps): JSX.Element {
  const at = found.iterations.indexOf(found.iteration_index);
  const go = (place: number) => {
    const iteration = found.iterations[place];
    if (iteration !== undefined) onChange(iteration);
  };
  return (
    <>
      {at > 0 && (
        <IconButton icon="chevronLeft" label={t("Previous iteration")} onClick={() => go(at - 1)} />
      )}
      {at < found.iterations.length - 1 && (
        <IconButton icon="chevronRight" label={t("Next iteration")} onClick={() => go(at + 1)} />
      )}
    </>
  );
}

function pieceText(piece: Piece): string {
  const { item } = piece;
  const name = item.op_name ?? (item.owner || item.name);
  const more = piece.items > 1 ? t(" and {count} short items", { count: piece.items - 1 }) : "";
  const label = name === "" ? kindName(piece.kind) : `${kindName(piece.kind)}: ${name}`;
  return `${label}${more}, ${durationText(piece.durationNs)}`;
}

function ChainStrip({ found }: { found: CriticalPath }): JSX.Element {
  const drawn = pieces(found.chain, found.step_ns);
  const scale = CHAIN_WIDTH / Math.max(found.step_ns, 1);
  const kinds = [...new Set(drawn.map((piece) => piece.kind))];
  return (
    <div class="chain">
      <svg
        viewBox={`0 0 ${CHAIN_WIDTH} ${CHAIN_HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={t("Chain of {count} items over {time}; the table has the ops", {
          count: formatInt(found.num_items),
          time: durationText(found.step_ns),
        })}
      >
        {drawn.map((piece) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: a shortcut; the table has the links
          <rect
            key={piece.offsetNs}
            class={`chain-item chain-${piece.kind}`}
            x={piece.offsetNs * scale}
            y={0}
            width={piece.durationNs * scale}
            height={CHAIN_HEIGHT}
            onClick={() => piece.item.op_name !== null && navigate(opPage(piece.item.owner))}
          >
            <title>{pieceText(piece)}</title>
          </rect>
        ))}
      </svg>
      <ul class="chain-legend">
        {kinds.map((kind) => (
          <li key={kind}>
            <span class={`swatch chain-${kind}`} />
            {kindName(kind)}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Shares({ found }: { found: CriticalPath }): JSX.Element {
  return (
    <table class="facts-table">
      <caption class="visually-hidden">{t("Critical path of all steps")}</caption>
      <thead>
        <tr>
          <th scope="col">{t("Kind")}</th>
          <th scope="col">{t("Op or call")}</th>
          <th scope="col" class="align-right">
            {t("Time in a step")}
          </th>
          <th scope="col" class="align-right">
            {t("Share of the step")}
          </th>
        </tr>
      </thead>
      <tbody>
        {found.critical_path.slice(0, MOST_ROWS).map((row) => (
          <tr key={`${row.kind} ${row.owner}`}>
            <td>{kindName(row.kind)}</td>
            <td>
              {row.op_name === null ? (
                <span>{row.owner === "" ? "–" : row.owner}</span>
              ) : (
                <PageAnchor to={opPage(row.owner)} class="link">
                  {row.op_name}
                </PageAnchor>
              )}
            </td>
            <td class="align-right">{durationText(row.ns)}</td>
            <td class="align-right">{formatPct(row.share_pct)} %</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
