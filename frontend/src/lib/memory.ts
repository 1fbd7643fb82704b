/** The curve of GPU memory as paths of a picture. Pure functions only. */

import type { MemoryCurve } from "../api/types";

/** Where a picture has the places of the axis and the bytes. */
export interface Frame {
  readonly low: number;
  readonly high: number;
  readonly width: number;
  readonly height: number;
  /** Bytes at the upper edge. */
  readonly most: number;
}

function x(frame: Frame, at: number): string {
  const share = (at - frame.low) / Math.max(frame.high - frame.low, 1);
  return (Math.min(Math.max(share, 0), 1) * frame.width).toFixed(1);
}

function y(frame: Frame, bytes: number): string {
  return (frame.height * (1 - bytes / Math.max(frame.most, 1))).toFixed(1);
}

/** Counts stay as they are until the next event: a line of steps, to the right edge. */
function steps(frame: Frame, at: readonly number[], values: readonly number[]): string[] {
  const parts: string[] = [];
  for (const [index, value] of values.entries()) {
    const next = at[index + 1] ?? frame.high;
    parts.push(
      `${x(frame, at[index] ?? 0)} ${y(frame, value)}`,
      `${x(frame, next)} ${y(frame, value)}`,
    );
  }
  return parts;
}

export function linePath(frame: Frame, at: readonly number[], values: readonly number[]): string {
  const points = steps(frame, at, values);
  return points.length === 0 ? "" : `M${points.join("L")}`;
}

export interface Area {
  readonly kind: string;
  readonly path: string;
}

/** One area for each kind, on top of those before it. */
export function areas(frame: Frame, curve: MemoryCurve): Area[] {
  let below = curve.at.map(() => 0);
  return curve.kinds.map(({ kind, bytes }) => {
    const above = below.map((size, index) => size + (bytes[index] ?? 0));
    const back = steps(frame, curve.at, below).reverse();
    const path =
      above.length === 0 ? "" : `M${[...steps(frame, curve.at, above), ...back].join("L")}Z`;
    below = above;
    return { kind, path };
  });
}

/** The last point of a curve at or before a place; the first if there is none; -1: no points. */
export function pointAt(at: readonly number[], place: number): number {
  let low = 0;
  let high = at.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((at[middle] ?? 0) <= place) low = middle + 1;
    else high = middle;
  }
  return at.length === 0 ? -1 : Math.max(low - 1, 0);
}

/** The point with most allocated from one place to another; -1: no points. */
export function peakWithin(curve: MemoryCurve, low: number, high: number): number {
  let found = pointAt(curve.at, low);
  for (let index = found; index >= 0 && index < curve.at.length; index += 1) {
    if ((curve.at[index] ?? 0) > high) break;
    if ((curve.allocated_bytes[index] ?? 0) > (curve.allocated_bytes[found] ?? 0)) found = index;
  }
  return found;
}
