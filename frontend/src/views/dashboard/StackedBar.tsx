/** One bar cut into parts, labeled in place, with a legend that hides parts and gives exact values. */

import { useState } from "preact/hooks";
import { type DrawnSlice, drawnSlices, type Slice } from "../../lib/activities";
import { formatPct } from "../../lib/units";
import { Button } from "../../ui/Button";

/** Least share that has room for its number, and for its name too, inside of a bar. Unit: percent. */
const NUMBER_FROM_PCT = 6;
const NAME_FROM_PCT = 20;

export function StackedBar(props: {
  label: string;
  slices: readonly Slice[];
  /** The value of a slice in words, for legend and tooltip; without it, only the share is shown. */
  valueText?: (slice: Slice) => string;
  height?: number;
  /** Whether the legend is one line, with shares alone. */
  isInline?: boolean;
}) {
  const { slices, valueText } = props;
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const toggle = (key: string) => {
    const next = new Set(hidden);
    if (!next.delete(key)) next.add(key);
    // With nothing left to show, everything comes back.
    setHidden(next.size === slices.length ? new Set() : next);
  };
  const drawn = drawnSlices(slices);
  const shares = new Map(drawn.map((slice) => [slice.key, slice.pct]));
  const seen = drawn.filter((slice) => !hidden.has(slice.key));
  return (
    <div class="stacked">
      <div
        class="stacked-bar"
        style={{ height: `${props.height ?? 28}px` }}
        role="img"
        aria-label={`${props.label}: ${seen.map((s) => `${s.label} ${formatPct(s.pct)} %`).join(", ")}`}
      >
        {drawn.map((slice) => (
          <span
            key={slice.key}
            class={hidden.has(slice.key) ? "part-hidden" : `part-${slice.key}`}
            style={{ flexGrow: slice.pct }}
            title={sliceTitle(slice, slice.pct, valueText)}
          >
            {!hidden.has(slice.key) && labelOf(slice, props.isInline ?? false)}
          </span>
        ))}
      </div>
      <ul class="legend">
        {drawn.map((slice) => {
          const isHidden = hidden.has(slice.key);
          return (
            <li key={slice.key}>
              <Button
                class={isHidden ? "is-off" : ""}
                aria-pressed={!isHidden}
                title={slice.hint}
                onClick={() => toggle(slice.key)}
              >
                <span class={`swatch part-${slice.key}`} />
                <span class="legend-label">{slice.label}</span>
                {valueText !== undefined && !props.isInline && (
                  <span class="legend-value">{valueText(slice)}</span>
                )}
                <span class="legend-pct">
                  {isHidden ? "–" : `${formatPct(shares.get(slice.key) ?? 0)} %`}
                </span>
              </Button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function labelOf({ label, pct }: DrawnSlice, hasRoom: boolean) {
  if (pct < NUMBER_FROM_PCT) return null;
  return (
    <span>
      {hasRoom && pct >= NAME_FROM_PCT && <span class="slice-name">{label}</span>}
      {formatPct(pct)} %
    </span>
  );
}

function sliceTitle(
  slice: Slice,
  pct: number,
  valueText: ((slice: Slice) => string) | undefined,
): string {
  const value = valueText === undefined ? "" : ` · ${valueText(slice)}`;
  return `${slice.label}: ${pct.toFixed(2)} %${value}`;
}
