/** Values of one op or kernel: over the iterations, and how often a call took how long. */

import type { ComponentChildren } from "preact";
import type { DurationBin } from "../../api/types";
import { t } from "../../i18n";
import { quantile, type Span, spans } from "../../lib/distribution";
import { countOf, durationRange, durationText } from "../../lib/units";

const WIDTH = 600;
const HEIGHT = 120;
const MAX_BARS = 200;

/** Marks side by side, with what stands at both ends and between them. */
function Marks(props: {
  label: string;
  words: string;
  ends: readonly [ComponentChildren, ComponentChildren];
  children: ComponentChildren;
}) {
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" };
  return (
    <figure class="marks">
      <svg {...box} role="img" aria-label={props.label}>
        {props.children}
      </svg>
      <figcaption>
        <span>{props.ends[0]}</span>
        <span class="marks-words">{props.words}</span>
        <span>{props.ends[1]}</span>
      </figcaption>
    </figure>
  );
}

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
    <Marks label={words} words={words} ends={[index[0], index.at(-1)]}>
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
    </Marks>
  );
}

export function Histogram(props: {
  bins: readonly DurationBin[];
  noun: readonly [one: string, many: string];
}) {
  const { bins, noun } = props;
  const most = Math.max(...bins.map((bin) => bin.num_calls), 1);
  const width = WIDTH / Math.max(bins.length, 1);
  const shortest = bins[0]?.start_ns ?? 0;
  const longest = bins.at(-1)?.stop_ns ?? 0;
  const total = bins.reduce((sum, bin) => sum + bin.num_calls, 0);
  const words = t("{calls}, from {low} to {high}", {
    calls: countOf(total, noun),
    low: durationText(shortest),
    high: durationText(longest),
  });
  return (
    <Marks
      label={words}
      words={countOf(total, noun)}
      ends={[durationText(shortest), durationText(longest)]}
    >
      {bins.map((bin, place) => {
        const height = (HEIGHT * bin.num_calls) / most;
        return (
          <g key={bin.start_ns}>
            <title>
              {`${durationRange(bin.start_ns, bin.stop_ns)}: ${countOf(bin.num_calls, noun)}`}
            </title>
            <rect class="mark-hit" x={place * width} y={0} width={width} height={HEIGHT} />
            <rect
              class="mark"
              x={place * width + 1}
              // A single call among thousands must be seen too.
              y={HEIGHT - Math.max(height, bin.num_calls > 0 ? 1.5 : 0)}
              width={Math.max(width - 2, 1)}
              height={Math.max(height, bin.num_calls > 0 ? 1.5 : 0)}
            />
          </g>
        );
      })}
    </Marks>
  );
}
