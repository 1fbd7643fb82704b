/** Places of the points and lines of a figure with two logarithmic axes. Pure functions only. */

import type { Label as PlacedText, Tick } from "./iterationFigure";

export interface PointTrace {
  readonly mode: string;
  readonly name: string;
  readonly x: readonly number[];
  readonly y: readonly number[];
  readonly marker?: { readonly size: readonly number[]; readonly color: string };
  /** Op, its GPU time, share of the peak, time above ideal. Unit of times: ns. */
  readonly customdata?: readonly (readonly [string, number, number | null, number | null])[];
}

interface Axis {
  readonly title: { readonly text: string };
  /** Powers of ten. */
  readonly range: readonly [number, number];
}

interface Note {
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly xanchor: string;
}

export interface PointFigure {
  readonly data: readonly PointTrace[];
  readonly layout: {
    readonly xaxis: Axis;
    readonly yaxis: Axis;
    readonly annotations?: readonly Note[];
  };
}

export const POINT_MARGIN = { left: 64, right: 16, top: 12, bottom: 44 } as const;

export interface Point {
  readonly trace: PointTrace;
  readonly place: number;
  readonly x: number;
  readonly y: number;
  /** Unit: pixels. */
  readonly radius: number;
}

/** A text beside a place of the picture. */
export interface Label extends PlacedText {
  readonly y: number;
}

export interface PointDrawing {
  readonly points: readonly Point[];
  readonly lines: readonly string[];
  readonly labels: readonly Label[];
  readonly xTicks: readonly Tick[];
  readonly yTicks: readonly Tick[];
}

const LABEL_HEIGHT = 15;

function tickText(power: number): string {
  const value = 10 ** power;
  if (power >= 6 || power < -3) return `1e${power}`;
  return power < 0 ? value.toFixed(-power) : value.toLocaleString("en-US");
}

/** Every power of ten, or every second or third where they would touch each other. */
export function powerTicks(range: readonly [number, number], most: number): readonly number[] {
  const [from, to] = [Math.ceil(range[0]), Math.floor(range[1])];
  const step = Math.max(1, Math.ceil((to - from + 1) / Math.max(1, most)));
  const ticks: number[] = [];
  for (let power = Math.ceil(from / step) * step; power <= to; power += step) ticks.push(power);
  return ticks;
}

/** Labels one above the other where they would overlap. */
export function spread(labels: readonly Label[]): readonly Label[] {
  const placed: Label[] = [];
  for (const label of labels.toSorted((a, b) => b.y - a.y)) {
    let { y } = label;
    for (const other of placed) {
      if (other.anchor === label.anchor && y > other.y - LABEL_HEIGHT) y = other.y - LABEL_HEIGHT;
    }
    placed.push({ ...label, y });
  }
  return placed;
}

export function drawPoints(figure: PointFigure, width: number, height: number): PointDrawing {
  const { xaxis, yaxis, annotations } = figure.layout;
  const { left, right, top, bottom } = POINT_MARGIN;
  const inner = { width: width - left - right, height: height - top - bottom };
  const xOf = (power: number) =>
    left + (inner.width * (power - xaxis.range[0])) / (xaxis.range[1] - xaxis.range[0]);
  const yOf = (power: number) =>
    top + inner.height * (1 - (power - yaxis.range[0]) / (yaxis.range[1] - yaxis.range[0]));
  const at = (trace: PointTrace, place: number) => ({
    x: xOf(Math.log10(trace.x[place] ?? 1)),
    y: yOf(Math.log10(trace.y[place] ?? 1)),
  });
  const points = figure.data.flatMap((trace) =>
    trace.mode === "lines"
      ? []
      : trace.x.map((_, place) => ({
          trace,
          place,
          ...at(trace, place),
          radius: (trace.marker?.size[place] ?? 6) / 2,
        })),
  );
  const lines = figure.data
    .filter((trace) => trace.mode === "lines")
    .map((trace) =>
      trace.x
        .map((_, place) => at(trace, place))
        .map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`)
        .join(" "),
    );
  const labels = (annotations ?? []).map((note) => ({
    text: note.text,
    x: xOf(note.x) + (note.xanchor === "right" ? -4 : 4),
    y: yOf(note.y) - 5,
    anchor: note.xanchor === "right" ? ("end" as const) : ("start" as const),
  }));
  const tick = (power: number, place: number) => ({ at: place, text: tickText(power) });
  return {
    // Small ones last: a large one must not hide them.
    points: points.toSorted((a, b) => b.radius - a.radius),
    lines,
    labels: spread(labels),
    xTicks: powerTicks(xaxis.range, inner.width / 56).map((power) => tick(power, xOf(power))),
    yTicks: powerTicks(yaxis.range, inner.height / 28).map((power) => tick(power, yOf(power))),
  };
}

/** The smallest point under the pointer; null: none. */
export function pointAt(points: readonly Point[], x: number, y: number): Point | null {
  const near = points.filter((one) => Math.hypot(one.x - x, one.y - y) <= one.radius + 2);
  return near.reduce<Point | null>(
    (best, one) => (best === null || one.radius <= best.radius ? one : best),
    null,
  );
}
