/** The server's iteration figure as shapes of an SVG picture. Pure functions only. */

import { t } from "../i18n";
import { durationText, formatInt, NS_PER_UNIT, pickTimeUnit } from "../lib/units";

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
  /** Prefill, decode, training; null: none, or several in a bar. */
  readonly phase: string | null;
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

export type IndexRange = readonly [first: number, last: number];

export interface DrawOptions {
  readonly hidden: ReadonlySet<string>;
  readonly bounds: IndexRange | null;
  /** Size of the picture. Unit: pixels. */
  readonly width: number;
  readonly height: number;
  /** Bars much longer than the rest are drawn in full, however small the rest becomes. */
  readonly isFullHeight: boolean;
}

/** Room around the bars for axes and labels. Unit: pixels. */
export const MARGIN = { left: 56, right: 16, top: 34, bottom: 40 } as const;
/** Width of a character of a label, about. Unit: pixels. */
const CHARACTER = 6.5;

/** How many bars a window of this width can show: at least two pixels each, in steps. */
export function barsFor(windowWidth: number): number {
  return Math.min(1000, Math.max(100, Math.ceil(windowWidth / 200) * 100));
}

/** A bar this many times as long as the typical one is cut off. */
const CUT_FACTOR = 4;
/** With more than this share of long bars there is no typical one: nothing is cut off. */
const MOST_CUT = 0.25;
/** More bars than this are a few pixels wide: gaps between them would come and go with rounding. */
const GAPLESS_FROM = 60;
/** Height of the strip that shows the phases. Unit: pixels. */
const PHASE_STRIP = 4;
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

/** The phases of the iterations, in order of the first of each. */
export function presentPhases(figure: IterationFigure): readonly string[] {
  const { bars } = figure.layout.meta;
  const phases = [...new Set(bars.flatMap(({ phase }) => (phase === null ? [] : [phase])))];
  return phases.length > 1 ? phases : [];
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
 * and show their length instead (`cutLabels`).
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

/** A text beside a place of the picture. */
export interface Label {
  readonly x: number;
  readonly anchor: "start" | "end";
  readonly text: string;
}

interface Span {
  readonly left: number;
  readonly right: number;
}

function widthOf(text: string): number {
  return CHARACTER * text.length + 8;
}

/** The lengths of the bars that do not fit, none over another: neighbors share the longest. */
export function cutLabels(
  places: readonly { readonly x: number; readonly ns: number }[],
  frame: Span,
): readonly Label[] {
  const groups: { x: number; ns: number; count: number }[] = [];
  for (const { x, ns } of places) groups.push({ x, ns, count: 1 });
  const textOf = (group: { ns: number; count: number }) =>
    group.count === 1
      ? `▲ ${durationText(group.ns)}`
      : `▲ ${t("up to {time}", { time: durationText(group.ns) })}`;
  const place = (group: { x: number; ns: number; count: number }): Span & { label: Label } => {
    const text = textOf(group);
    const width = widthOf(text);
    const isRight = group.x + width > frame.right;
    const label: Label = { x: group.x, anchor: isRight ? "end" : "start", text };
    return isRight
      ? { left: group.x - width, right: group.x, label }
      : { left: group.x, right: group.x + width, label };
  };
  // Joins the first two labels that overlap, until none do.
  for (;;) {
    const spans = groups.map(place);
    const at = spans.findIndex(
      (span, index) => index > 0 && span.left < (spans[index - 1]?.right ?? 0),
    );
    if (at === -1) return spans.map((span) => span.label);
    const [one, other] = [groups[at - 1], groups[at]];
    if (one === undefined || other === undefined) return [];
    const ns = Math.max(one.ns, other.ns);
    groups.splice(at - 1, 2, { x: one.x, ns, count: one.count + other.count });
  }
}

/** The words at the bounds of the aggregation: inside of a long range, outside of a short one. */
export function boundLabels(
  start: number | null,
  stop: number | null,
  frame: Span,
): readonly Label[] {
  const words = { start: t("Start"), stop: t("Stop") };
  if (start === null || stop === null) {
    const labels: Label[] = [];
    if (start !== null) labels.push(beside(start, words.start, "start", frame));
    if (stop !== null) labels.push(beside(stop, words.stop, "end", frame));
    return labels;
  }
  if (stop - start >= widthOf(words.start) + widthOf(words.stop)) {
    return [
      { x: start, anchor: "start", text: words.start },
      { x: stop, anchor: "end", text: words.stop },
    ];
  }
  const fitsLeft = start - widthOf(words.start) >= frame.left;
  const fitsRight = stop + widthOf(words.stop) <= frame.right;
  if (fitsLeft && fitsRight) {
    return [
      { x: start, anchor: "end", text: words.start },
      { x: stop, anchor: "start", text: words.stop },
    ];
  }
  return [beside(fitsRight ? start : stop, t("Start, stop"), fitsRight ? "start" : "end", frame)];
}

function beside(x: number, text: string, anchor: Label["anchor"], frame: Span): Label {
  const fits =
    anchor === "start" ? x + widthOf(text) <= frame.right : x - widthOf(text) >= frame.left;
  return { x, text, anchor: fits ? anchor : anchor === "start" ? "end" : "start" };
}

/** Round values from 0 to `most`, about `count` of them. */
export function ticks(least: number, most: number, count: number, smallest = 0): readonly number[] {
  const rough = Math.max((most - least) / Math.max(1, count), smallest, Number.MIN_VALUE);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) ?? 10);
  const values: number[] = [];
  for (let at = Math.ceil(least / step); at * step <= most; at += 1) values.push(at * step);
  return values;
}

export interface Tick {
  readonly at: number;
  readonly text: string;
}

export interface Drawing {
  /** The outline of all bars of a part. */
  readonly parts: readonly { readonly part: string; readonly path: string }[];
  /** What is not part of the loop, in all its parts. */
  readonly hatched: string;
  /** From the mean of a bar of several iterations to the longest of them. */
  readonly spikes: string;
  /** A strip below the bars of each phase. */
  readonly phases: readonly string[];
  /** Place of each bar. */
  readonly bars: readonly { readonly x: number; readonly width: number }[];
  readonly bounds: readonly number[];
  readonly boundLabels: readonly Label[];
  readonly cuts: readonly Label[];
  readonly xTicks: readonly Tick[];
  readonly yTicks: readonly Tick[];
  /** Unit of the vertical axis. */
  readonly unit: string;
  /** Some bars are longer than the axis. */
  readonly isCut: boolean;
  readonly pixelsPerIteration: number;
}

function rectangle(x: number, y: number, width: number, height: number): string {
  return `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h${(-width).toFixed(1)}z`;
}

export function drawFigure(figure: IterationFigure, options: DrawOptions): Drawing {
  const { meta } = figure.layout;
  const { bounds, hidden, width, height } = options;
  const frame = { left: MARGIN.left, right: width - MARGIN.right };
  const bottom = height - MARGIN.bottom;
  const tall = bottom - MARGIN.top;
  const perIteration =
    Math.max(1, frame.right - frame.left) / (meta.last - meta.first + 1 + 2 * AXIS_MARGIN);
  const xOf = (iteration: number) =>
    frame.left + (iteration - meta.first + 0.5 + AXIS_MARGIN) * perIteration;
  // The axis stays as it is when a part is hidden.
  const whole = barHeights(figure, new Set());
  const top = axisTop(whole, meta.bars, bounds, options.isFullHeight);
  const yOf = (value: number) => bottom - (Math.min(value, top) / top) * tall;
  const fill = meta.bars.length > GAPLESS_FROM ? 1 : 0.84;
  const bars = meta.bars.map((bar) => {
    const wide = fill * (bar.last - bar.first + 1) * perIteration;
    return { x: xOf((bar.first + bar.last) / 2) - wide / 2, width: wide };
  });
  const reached = meta.bars.map(() => 0);
  const parts = figure.data
    .filter((trace) => !hidden.has(partOf(trace)))
    .map((trace) => ({ part: partOf(trace), path: stack(trace, bars, reached, yOf) }));
  const unit = pickTimeUnit(top * meta.unit_ns);
  const scale = meta.unit_ns / NS_PER_UNIT[unit];
  const cut = meta.bars.flatMap((bar, index) =>
    (whole[index] ?? 0) > top ? [{ x: bars[index]?.x ?? 0, ns: bar.duration_ns }] : [],
  );
  const marks = markedBounds(bounds, meta).map((at) => (at === null ? null : xOf(at)));
  const spanned = Math.max(2, Math.floor((frame.right - frame.left) / 64));
  return {
    parts,
    hatched: hatchedBars(meta.bars, bars, reached, yOf, bottom),
    phases: presentPhases(figure).map((phase) =>
      bars
        .map(({ x, width }, index) =>
          meta.bars[index]?.phase === phase ? rectangle(x, bottom + 1, width, PHASE_STRIP) : "",
        )
        .join(""),
    ),
    spikes: spikesOf(meta, bars, yOf, hidden.size > 0 ? null : top),
    bars,
    bounds: marks.filter((at) => at !== null),
    boundLabels: boundLabels(marks[0] ?? null, marks[1] ?? null, frame),
    cuts: cutLabels(cut, frame),
    xTicks: ticks(meta.first, meta.last, Math.min(12, spanned), 1).map((at) => ({
      at: xOf(at),
      text: formatInt(at),
    })),
    yTicks: ticks(0, top * scale, 5).map((at) => ({
      at: yOf(at / scale),
      text: String(Number(at.toPrecision(6))),
    })),
    unit,
    isCut: cut.length > 0,
    pixelsPerIteration: perIteration,
  };
}

/** The bars of a part, each on top of what it `reached` before. */
function stack(
  trace: FigureTrace,
  bars: Drawing["bars"],
  reached: number[],
  yOf: (value: number) => number,
): string {
  let path = "";
  bars.forEach((bar, index) => {
    const value = trace.y[index] ?? 0;
    if (value <= 0) return;
    const low = reached[index] ?? 0;
    reached[index] = low + value;
    const y = yOf(low + value);
    path += rectangle(bar.x, y, bar.width, yOf(low) - y);
  });
  return path;
}

function hatchedBars(
  about: readonly FigureBar[],
  bars: Drawing["bars"],
  reached: readonly number[],
  yOf: (value: number) => number,
  bottom: number,
): string {
  return about
    .map(({ kind }, index) => {
      const bar = bars[index];
      if (bar === undefined || (kind !== "before" && kind !== "after")) return "";
      const y = yOf(reached[index] ?? 0);
      return rectangle(bar.x, y, bar.width, bottom - y);
    })
    .join("");
}

/** With a part hidden a bar no longer ends at its duration: there are none. */
function spikesOf(
  meta: FigureMeta,
  bars: Drawing["bars"],
  yOf: (value: number) => number,
  top: number | null,
): string {
  if (top === null) return "";
  return meta.bars
    .map((about, index) => {
      const bar = bars[index];
      const mean = about.duration_ns / meta.unit_ns;
      if (bar === undefined || about.first === about.last || mean >= top) return "";
      const x = bar.x + bar.width / 2;
      return `M${x.toFixed(1)} ${yOf(mean).toFixed(1)}V${yOf(about.longest_ns / meta.unit_ns).toFixed(1)}`;
    })
    .join("");
}

/** Where the aggregation starts and stops, as far as that is in the picture. */
function markedBounds(bounds: IndexRange | null, meta: FigureMeta): readonly (number | null)[] {
  if (bounds === null) return [null, null];
  return [bounds[0] - 0.5, bounds[1] + 0.5].map((at) =>
    at >= meta.first - 0.5 && at <= meta.last + 0.5 ? at : null,
  );
}

/** The bar at a horizontal place, or the nearest one. */
export function barAt(bars: Drawing["bars"], x: number): number {
  const after = bars.findIndex((bar) => bar.x + bar.width >= x);
  return after === -1 ? bars.length - 1 : after;
}

/** How far the axis reaches beyond its first and last bar. Unit: iterations. */
const AXIS_MARGIN = 0.1;

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
