/** A value of one op or kernel over the iterations; where they are many, several share a bar. */

import { t } from "../../i18n";
import { quantile, type Span, spans } from "../../lib/distribution";
import { durationText } from "../../lib/units";

const WIDTH = 600;
const HEIGHT = 120;
const MAX_BARS = 200;

export interface TrendProps {
  readonly index: readonly number[];
  /** One for each iteration. Unit: ns. */
  readonly values: readonly number[];
  readonly onSelect: (iteration: number) => void;
}

function iterationsText({ first, last }: Span): string {
  return first === last
    ? t("Iteration {iteration}", { iteration: first })
    : t("Iterations {first}–{last}", { first, last });
}

function spanText(span: Span): string {
  const time =
    span.first === span.last
      ? durationText(span.most)
      : t("median {median}, at most {most}", {
          median: durationText(span.median),
          most: durationText(span.most),
        });
  return `${iterationsText(span)}: ${time}`;
}

export function Trend({ index, values, onSelect }: TrendProps) {
  const bars = spans(index, values, MAX_BARS);
  const most = Math.max(...values, 1);
  const width = WIDTH / bars.length;
  const gap = Math.min(1, width * 0.15);
  const height = (value: number) => (HEIGHT * value) / most;
  const sorted = values.toSorted((a, b) => a - b);
  const words = t("Median {median}, p10–p90 {low} to {high}, at most {most}", {
    median: durationText(quantile(sorted, 0.5)),
    low: durationText(quantile(sorted, 0.1)),
    high: durationText(quantile(sorted, 0.9)),
    most: durationText(sorted.at(-1) ?? 0),
  });
  return (
    <figure class="marks">
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={words}
      >
        {bars.map((bar, place) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: the table of iterations leads there by key
          <g key={bar.first} onClick={() => onSelect(bar.first)}>
            <title>{spanText(bar)}</title>
            <rect class="mark-hit" x={place * width} y={0} width={width} height={HEIGHT} />
            {[bar.most, bar.median].map((value, layer) => (
              <rect
                key={layer}
                class={layer === 0 && bar.first !== bar.last ? "mark-most" : "mark"}
                x={place * width + gap}
                y={HEIGHT - height(value)}
                width={width - 2 * gap}
                height={height(value)}
              />
            ))}
          </g>
        ))}
      </svg>
      <figcaption>
        <span>{index[0]}</span>
        <span class="marks-words">{words}</span>
        <span>{index.at(-1)}</span>
      </figcaption>
    </figure>
  );
}
