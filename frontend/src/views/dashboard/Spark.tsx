/** A line of iteration durations without axes: is it steady? */

import type { JSX } from "preact";
import type { Iteration } from "../../api/types";
import { t } from "../../i18n";
import { durationText } from "../../lib/units";

const WIDTH = 88;
const HEIGHT = 28;
const INSET = 2;

/** Points of a polyline from first to last, the smallest value at the bottom. */
export function sparkPoints(values: readonly number[]): string {
  const low = Math.min(...values);
  const span = Math.max(...values) - low || 1;
  const step = values.length > 1 ? (WIDTH - 2 * INSET) / (values.length - 1) : 0;
  return values
    .map((value, index) => {
      const y = HEIGHT - INSET - ((value - low) / span) * (HEIGHT - 2 * INSET);
      return `${(INSET + index * step).toFixed(1)},${y.toFixed(1)}`;
    })
    .join(" ");
}

export function Spark({ iterations }: { iterations: readonly Iteration[] }): JSX.Element | null {
  const values = iterations
    .filter((item) => item.is_profiled && item.kind !== "before")
    .map((item) => item.duration_ns)
    .filter((ns) => ns !== null);
  if (values.length < 2) return null;
  const words = t("From {low} to {high}", {
    low: durationText(Math.min(...values)),
    high: durationText(Math.max(...values)),
  });
  return (
    <svg class="spark" width={WIDTH} height={HEIGHT} role="img" aria-label={words}>
      <title>{words}</title>
      <polyline points={sparkPoints(values)} />
    </svg>
  );
}
