/** How often a call or launch took how long. */

import type { DurationBin } from "../../api/types";
import { t } from "../../i18n";
import { countOf, durationRange, durationText } from "../../lib/units";

const WIDTH = 300;
const HEIGHT = 120;

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
    <figure class="marks">
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={words}
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
                x={place * width + 0.5}
                // A single call among thousands must be seen too.
                y={HEIGHT - Math.max(height, bin.num_calls > 0 ? 1.5 : 0)}
                width={Math.max(width - 1, 0.5)}
                height={Math.max(height, bin.num_calls > 0 ? 1.5 : 0)}
              />
            </g>
          );
        })}
      </svg>
      <figcaption>
        <span>{durationText(shortest)}</span>
        <span class="marks-words">{countOf(total, noun)}</span>
        <span>{durationText(longest)}</span>
      </figcaption>
    </figure>
  );
}
