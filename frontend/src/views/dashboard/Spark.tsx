/** A line of iteration durations without axes: is it steady? */

import { barsFor, type FigureBar, type IterationFigure } from "../../charts/iterationFigure";
import { t } from "../../i18n";
import { durationText } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { useTheme } from "../../state/theme";

const WIDTH = 88;
const HEIGHT = 28;
const INSET = 2;
/** Fewer points show no course. */
const MIN_POINTS = 5;

export interface SparkShape {
  /** Means, as the points of a polyline. */
  readonly line: string;
  /** From the longest to the shortest of each point's iterations, as those of a polygon. */
  readonly band: string;
  /** The marked iterations. */
  readonly marks: readonly (readonly [x: number, y: number])[];
  readonly shortestNs: number;
  readonly longestNs: number;
  /** The most iterations that share a point. */
  readonly perPoint: number;
}

/** All aggregated iterations from first to last, the shortest at the bottom; null: too few. */
export function sparkShape(
  figure: IterationFigure,
  marked: readonly number[] = [],
): SparkShape | null {
  // Without `meta` there is nothing to draw.
  const bars = (figure.layout.meta?.bars ?? []).filter(
    (bar) => bar.is_profiled && bar.kind !== "before",
  );
  const first = bars[0];
  const last = bars.at(-1);
  if (first === undefined || last === undefined || bars.length < MIN_POINTS) return null;
  const shortestNs = Math.min(...bars.map((bar) => bar.shortest_ns));
  const longestNs = Math.max(...bars.map((bar) => bar.longest_ns));
  const begin = center(first);
  const width = (WIDTH - 2 * INSET) / (center(last) - begin);
  const height = (HEIGHT - 2 * INSET) / (longestNs - shortestNs || 1);
  const place = (bar: FigureBar, ns: number) =>
    [INSET + (center(bar) - begin) * width, HEIGHT - INSET - (ns - shortestNs) * height] as const;
  const point = (bar: FigureBar, ns: number) =>
    place(bar, ns)
      .map((at) => at.toFixed(1))
      .join(",");
  const top = bars.map((bar) => point(bar, bar.longest_ns));
  const bottom = bars.map((bar) => point(bar, bar.shortest_ns)).reverse();
  return {
    line: bars.map((bar) => point(bar, bar.duration_ns)).join(" "),
    band: [...top, ...bottom].join(" "),
    marks: bars
      .filter((bar) => marked.some((index) => index >= bar.first && index <= bar.last))
      .map((bar) => place(bar, bar.longest_ns)),
    shortestNs,
    longestNs,
    perPoint: Math.max(...bars.map((bar) => bar.last - bar.first + 1)),
  };
}

function center(bar: FigureBar): number {
  return (bar.first + bar.last) / 2;
}

function words(shape: SparkShape): string {
  const values = { low: durationText(shape.shortestNs), high: durationText(shape.longestNs) };
  return shape.perPoint === 1
    ? t("From {low} to {high}", values)
    : t(
        "From {low} to {high}; a point is the mean of up to {count} iterations, and the band behind it spans from the shortest to the longest of them",
        { ...values, count: shape.perPoint },
      );
}

interface SparkProps {
  readonly width: number;
  readonly height: number;
  /** Iterations that stand out. */
  readonly marked: readonly number[];
}

/** The figure is that of the iteration summary below, so it is fetched once for both. */
export function Spark({ width, height, marked }: SparkProps) {
  const theme = useTheme();
  const figure = useScoped<IterationFigure>("figures/iteration-summary/", {
    theme,
    view: "all",
    max_bars: barsFor(window.innerWidth),
  });
  const box = { width, height, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" };
  // Its place is kept while it loads.
  if (figure.data === null) return <svg class="spark" {...box} aria-hidden="true" />;
  const shape = sparkShape(figure.data, marked);
  if (shape === null) return null;
  return (
    <svg class="spark" {...box} role="img" aria-label={words(shape)}>
      <title>{words(shape)}</title>
      {shape.perPoint > 1 && <polygon points={shape.band} />}
      <polyline points={shape.line} />
      {shape.marks.map(([x, y]) => (
        <circle key={x} cx={x} cy={y} r="2.5" />
      ))}
    </svg>
  );
}
