/** The card beside a bar: all its components, exact. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import { PARTS } from "../lib/activities";
import { phaseName } from "../lib/aggregations";
import { durationText, formatPct } from "../lib/units";
import { type FigureBar, type IterationFigure, partOf } from "./iterationFigure";

const MARGIN = 12;

export interface IterationCardProps {
  readonly figure: IterationFigure;
  readonly index: number;
  /** Place of the bar, and the width of the picture. Unit: pixels. */
  readonly bar: { readonly x: number; readonly width: number };
  readonly frameWidth: number;
}

function title(bar: FigureBar): string {
  if (bar.kind === "before") return t("Interval {index}: start-up", { index: bar.first });
  if (bar.kind === "after") return t("Interval {index}: after the loop", { index: bar.first });
  return bar.first === bar.last
    ? t("Iteration {index}", { index: bar.first })
    : t("Iterations {first}–{last}, mean of {count}", {
        first: bar.first,
        last: bar.last,
        count: bar.last - bar.first + 1,
      });
}

interface Line {
  readonly key: string;
  readonly label: string;
  readonly ns: number;
}

/** The parts of one bar in stacking order; a part of nothing is left out. */
export function cardLines(figure: IterationFigure, index: number): readonly Line[] {
  const unitNs = figure.layout.meta.unit_ns;
  return figure.data.flatMap((trace) => {
    const value = trace.y[index] ?? 0;
    if (value <= 0) return [];
    const key = partOf(trace);
    const label = PARTS.find((part) => part.key === key)?.label ?? t("Outside aggregation");
    return [{ key, label, ns: Math.round(value * unitNs) }];
  });
}

export function IterationCard(props: IterationCardProps) {
  const { figure, index } = props;
  const card = useRef<HTMLDivElement>(null);
  const bar = figure.layout.meta.bars[index];
  useLayoutEffect(() => {
    if (card.current !== null) placeCard(card.current, props.bar, props.frameWidth);
  });
  if (bar === undefined) return null;
  const lines = cardLines(figure, index);
  return (
    <div ref={card} class="chart-card" role="status">
      <p class="chart-card-title">
        {title(bar)}
        <b>{durationText(bar.duration_ns)}</b>
      </p>
      <table>
        <tbody>
          {lines.map((line) => (
            <tr key={line.key}>
              <th scope="row">
                <span class={`swatch part-${line.key}`} />
                {line.label}
              </th>
              <td>{durationText(line.ns)}</td>
              <td>{formatPct((100 * line.ns) / Math.max(1, bar.duration_ns))} %</td>
            </tr>
          ))}
          {bar.phase !== null && (
            <tr>
              <th scope="row">{t("Phase")}</th>
              <td>{phaseName(bar.phase)}</td>
              <td />
            </tr>
          )}
          {bar.first !== bar.last && (
            <tr>
              <th scope="row">{t("longest")}</th>
              <td>{durationText(bar.longest_ns)}</td>
              <td />
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

/** Beside the bar: right of it while there is room, else left. */
function placeCard(card: HTMLElement, bar: IterationCardProps["bar"], frameWidth: number): void {
  const right = bar.x + bar.width + MARGIN;
  const fitsRight = right + card.offsetWidth <= frameWidth;
  const left = fitsRight ? right : bar.x - MARGIN - card.offsetWidth;
  card.style.left = `${Math.max(0, left)}px`;
}
