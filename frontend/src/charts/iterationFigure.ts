/** The server's iteration figure, made ready for drawing. Pure functions only. */

import { t } from "../i18n";
import { durationText, NS_PER_UNIT, pickTimeUnit } from "../lib/units";

export interface FigureTrace {
  readonly name?: string;
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
  readonly width?: number | readonly number[];
  readonly meta?: { readonly part?: string };
  readonly marker?: Readonly<Record<string, unknown>>;
  readonly [key: string]: unknown;
}

export interface FigureBar {
  readonly first: number;
  readonly last: number;
  readonly kind: string | null;
  readonly is_profiled: boolean;
  /** Mean over the bar's iterations. */
  readonly duration_ns: number;
  readonly shortest_ns: number;
  readonly longest_ns: number;
}

export interface FigureMeta {
  readonly unit: string;
  readonly unit_ns: number;
  readonly bucket_size: number;
  readonly first: number;
  readonly last: number;
  readonly bars: readonly FigureBar[];
}

export interface IterationFigure {
  readonly data: readonly FigureTrace[];
  /** Without `meta` when there is nothing to draw. */
  readonly layout: { readonly meta: FigureMeta; readonly [key: string]: unknown };
}

/** Colors and face of the page, read from its style. */
export interface ChartTokens {
  readonly text: string;
  readonly muted: string;
  readonly grid: string;
  readonly surface: string;
  readonly bound: string;
  readonly font: string;
}

export type IndexRange = readonly [first: number, last: number];

export interface PrepareOptions {
  readonly tokens: ChartTokens;
  readonly hidden: ReadonlySet<string>;
  readonly bounds: IndexRange | null;
  readonly height: number;
  /** Bars much longer than the rest are drawn in full, however small the rest becomes. */
  readonly isFullHeight: boolean;
}

/** A bar this many times as long as the typical one is cut off. */
const CUT_FACTOR = 4;
/** With more than this share of long bars there is no typical one: nothing is cut off. */
const MOST_CUT = 0.25;
/** More bars than this are a few pixels wide: gaps between them would come and go with rounding. */
const GAPLESS_FROM = 60;
/** Room above the tallest bar that is not cut; more if cut bars show their length. */
const HEADROOM = 1.12;
const HEADROOM_CUT = 1.5;

export function partOf(trace: FigureTrace): string {
  return trace.meta?.part ?? trace.name ?? "";
}

/** Parts with any value, in stacking order: what the legend offers. */
export function presentParts(figure: IterationFigure): readonly string[] {
  return figure.data
    .filter((trace) => trace.y.some((value) => (value ?? 0) > 0))
    .map((trace) => partOf(trace));
}

/** Height of each bar in the unit of the axis, without the parts that are hidden. */
export function barHeights(
  figure: IterationFigure,
  hidden: ReadonlySet<string>,
): readonly number[] {
  const heights: number[] = [];
  for (const trace of figure.data) {
    if (hidden.has(partOf(trace))) continue;
    trace.y.forEach((value, index) => {
      heights[index] = (heights[index] ?? 0) + (value ?? 0);
    });
  }
  return heights;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function isInside(bar: FigureBar, bounds: IndexRange | null): boolean {
  return bounds === null || (bar.last >= bounds[0] && bar.first <= bounds[1]);
}

/**
 * The top of the axis.
 *
 * The start of the program is often 100 times as long as an iteration, and the first iterations
 * 20 times; drawn to scale they would leave nothing of the others to see. Such bars are cut off
 * and show their length instead (`cutMarks`).
 */
export function axisTop(
  heights: readonly number[],
  bars: readonly FigureBar[],
  bounds: IndexRange | null,
  isFullHeight: boolean,
): number {
  const all = heights.filter((height) => height > 0);
  const tallest = Math.max(0, ...all);
  const whole = tallest * HEADROOM || 1;
  if (isFullHeight || all.length < 4) return whole;
  const inside = heights.filter((height, index) => {
    const bar = bars[index];
    return height > 0 && bar !== undefined && bar.kind !== "before" && isInside(bar, bounds);
  });
  const limit = CUT_FACTOR * median(inside.length > 0 ? inside : all);
  const seen = all.filter((height) => height <= limit);
  const isFew = all.length - seen.length <= Math.max(3, MOST_CUT * all.length);
  return tallest > limit && isFew ? Math.max(...seen) * HEADROOM_CUT : whole;
}

interface Mark {
  readonly x: number;
  readonly text: string;
}

/** Labels nearer than this would cover each other. Unit: share of the axis. */
const MARK_DISTANCE = 0.14;

/** Bars that do not fit below `top`, neighbors as one mark, with the longest of their lengths. */
export function cutMarks(
  figure: IterationFigure,
  heights: readonly number[],
  top: number,
): readonly Mark[] {
  const { bars, first, last } = figure.layout.meta;
  const groups: { x: number; longest: number; count: number }[] = [];
  heights.forEach((height, index) => {
    const bar = bars[index];
    if (height <= top || bar === undefined) return;
    const x = (bar.first + bar.last) / 2;
    const group = groups.at(-1);
    if (group !== undefined && x - group.x < (last - first + 1) * MARK_DISTANCE) {
      group.longest = Math.max(group.longest, bar.duration_ns);
      group.count += 1;
    } else {
      groups.push({ x, longest: bar.duration_ns, count: 1 });
    }
  });
  return groups.map(({ x, longest, count }) => ({
    x,
    text: count === 1 ? durationText(longest) : t("up to {time}", { time: durationText(longest) }),
  }));
}

/**
 * Hatching of a trace's bars: what is not part of the loop in all its parts, and I/O everywhere,
 * whose color is too near to its neighbors' for some eyes.
 */
function hatch(bars: readonly FigureBar[], part: string): Record<string, unknown> {
  const usual = part === "io" ? "\\" : "";
  return {
    shape: bars.map((bar) => (bar.kind === "before" || bar.kind === "after" ? "/" : usual)),
    fillmode: "overlay",
    fgcolor: "#ffffff",
    fgopacity: 0.55,
    size: 6,
    solidity: 0.35,
  };
}

function tracesFor(
  figure: IterationFigure,
  options: PrepareOptions,
  scale: number,
): readonly FigureTrace[] {
  const { bars } = figure.layout.meta;
  const fill = bars.length > GAPLESS_FROM ? 1 : 0.84;
  const widths = bars.map((bar) => fill * (bar.last - bar.first + 1));
  return figure.data
    .filter((trace) => !options.hidden.has(partOf(trace)))
    .map((trace) => ({
      ...trace,
      width: widths,
      y: trace.y.map((value) => (value === null ? null : value * scale)),
      // The page draws its own card; "none" still reports what the pointer is over.
      hoverinfo: "none",
      hovertemplate: null,
      showlegend: false,
      marker: {
        ...trace.marker,
        line: { width: 0 },
        pattern: hatch(bars, partOf(trace)),
      },
    }));
}

function boundShape(x: number, color: string): Record<string, unknown> {
  return {
    type: "line",
    xref: "x",
    yref: "paper",
    x0: x,
    x1: x,
    y0: 0,
    y1: 1,
    line: { color, width: 3 },
    layer: "above",
  };
}

function boundLabel(x: number, text: string, side: "left" | "right", options: PrepareOptions) {
  return {
    x,
    y: 1,
    xref: "x",
    yref: "paper",
    text,
    showarrow: false,
    xanchor: side,
    yanchor: "bottom",
    font: { size: 11, color: options.tokens.bound },
  };
}

function isVisible(x: number, range: IndexRange): boolean {
  return x >= range[0] - 0.5 && x <= range[1] + 0.5;
}

/** Bars at the bounds of the aggregation, each with its word, where they are inside of the picture. */
function boundMarks(figure: IterationFigure, options: PrepareOptions) {
  const { bounds, tokens } = options;
  const { first, last } = figure.layout.meta;
  const shapes: Record<string, unknown>[] = [];
  const annotations: Record<string, unknown>[] = [];
  if (bounds === null) return { shapes, annotations };
  const start = bounds[0] - 0.5;
  const stop = bounds[1] + 0.5;
  if (isVisible(start, [first, last])) {
    shapes.push(boundShape(start, tokens.bound));
    annotations.push(boundLabel(start, t("Start"), "left", options));
  }
  if (isVisible(stop, [first, last])) {
    shapes.push(boundShape(stop, tokens.bound));
    annotations.push(boundLabel(stop, t("Stop"), "right", options));
  }
  return { shapes, annotations };
}

export interface Prepared {
  readonly data: readonly FigureTrace[];
  readonly layout: Readonly<Record<string, unknown>>;
  /** Some bars are longer than the axis. */
  readonly isCut: boolean;
}

export function prepareFigure(figure: IterationFigure, options: PrepareOptions): Prepared {
  const { tokens } = options;
  const { meta } = figure.layout;
  const heights = barHeights(figure, options.hidden);
  const top = axisTop(heights, meta.bars, options.bounds, options.isFullHeight);
  const cuts = cutMarks(figure, heights, top);
  const marks = boundMarks(figure, options);
  // The server's unit suits the longest bar, which may be one that is cut off here.
  const unit = pickTimeUnit(top * meta.unit_ns);
  const scale = meta.unit_ns / NS_PER_UNIT[unit];
  const axis = {
    color: tokens.muted,
    gridcolor: tokens.grid,
    zeroline: false,
    linecolor: tokens.grid,
    automargin: true,
    tickfont: { size: 11 },
  };
  const layout = {
    barmode: "stack",
    bargap: 0,
    height: options.height,
    margin: { l: 56, r: 16, t: 22, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: tokens.font, size: 12, color: tokens.text },
    showlegend: false,
    dragmode: "zoom",
    hovermode: "x",
    xaxis: {
      ...axis,
      showgrid: false,
      ticks: "outside",
      ticklen: 4,
      tickcolor: tokens.grid,
      tickformat: ",d",
      ...xTicks(meta),
      range: [meta.first - AXIS_MARGIN, meta.last + AXIS_MARGIN],
      title: { text: t("Iteration"), font: { size: 12 }, standoff: 6 },
    },
    yaxis: {
      ...axis,
      range: [0, top * scale],
      fixedrange: true,
      nticks: 6,
      title: { text: t("Duration ({unit})", { unit }), font: { size: 12 }, standoff: 8 },
    },
    shapes: marks.shapes,
    annotations: [...marks.annotations, ...cuts.map((cut) => cutLabel(cut, meta, tokens))],
  };
  return { data: tracesFor(figure, options, scale), layout, isCut: cuts.length > 0 };
}

/** Beside the top of a cut bar, on the side where there is room. */
function cutLabel(cut: Mark, meta: FigureMeta, tokens: ChartTokens): Record<string, unknown> {
  const isLeft = cut.x <= (meta.first + meta.last) / 2;
  return {
    x: cut.x,
    y: 1,
    xref: "x",
    yref: "paper",
    text: isLeft ? `▲ ${cut.text}` : `${cut.text} ▲`,
    showarrow: false,
    xanchor: isLeft ? "left" : "right",
    yanchor: "top",
    xshift: isLeft ? 2 : -2,
    bgcolor: tokens.surface,
    borderpad: 2,
    font: { size: 11, color: tokens.text },
  };
}

/** Whole numbers only: one tick per iteration when there are few. */
function xTicks(meta: FigureMeta): Record<string, unknown> {
  const span = meta.last - meta.first + 1;
  return span <= 24 ? { dtick: 1, tick0: 0 } : { nticks: 12 };
}

/** How far the axis reaches beyond its first and last bar. */
const AXIS_MARGIN = 0.6;

/** The same number of iterations, `by` further on, as far as there are any. */
export function panned(shown: IndexRange, by: number, limits: IndexRange): IndexRange {
  const [first, last] = shown;
  const least = limits[0] - first;
  const most = limits[1] - last;
  const step = Math.max(Math.min(least, 0), Math.min(Math.max(most, 0), by));
  return [first + step, last + step];
}

/** `factor` times as many iterations around the middle of those shown; null for all. */
export function scaled(shown: IndexRange, factor: number, limits: IndexRange): IndexRange | null {
  const middle = (shown[0] + shown[1]) / 2;
  const count = Math.max(1, Math.round((shown[1] - shown[0] + 1) * factor));
  if (count >= limits[1] - limits[0] + 1) return null;
  const wanted = Math.floor(middle - (count - 1) / 2);
  const first = Math.max(limits[0], Math.min(limits[1] - count + 1, wanted));
  return [first, first + count - 1];
}

/** The iterations that a zoomed or moved axis shows, from what Plotly reports; null for all. */
export function zoomFromRelayout(
  change: Readonly<Record<string, unknown>>,
  meta: FigureMeta,
  limits: IndexRange = [meta.first, meta.last],
): IndexRange | null | undefined {
  if (change["xaxis.autorange"] === true) return null;
  const low = change["xaxis.range[0]"];
  const high = change["xaxis.range[1]"];
  if (typeof low !== "number" || typeof high !== "number") return undefined;
  const width = meta.last - meta.first + 2 * AXIS_MARGIN;
  if (Math.abs(high - low - width) < 1e-6 * width) {
    // As wide as before: it was moved.
    return panned([meta.first, meta.last], Math.round(low - meta.first + AXIS_MARGIN), limits);
  }
  const first = Math.max(meta.first, Math.ceil(low - 0.4));
  const last = Math.min(meta.last, Math.floor(high + 0.4));
  return first <= last ? [first, last] : undefined;
}
