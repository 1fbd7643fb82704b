/** Windows of time and the items of lanes. Pure functions only. */

import type { LaneItems } from "../api/types";

/** What part of the time is shown: from `low` to `high`, in ns. */
export interface Span {
  readonly low: number;
  readonly high: number;
}

const SHORTEST_NS = 100;

export function lengthOf({ low, high }: Span): number {
  return high - low;
}

/** A window of the same length that lies within `all`, or all of it. */
export function within(span: Span, all: Span): Span {
  const length = Math.min(Math.max(lengthOf(span), SHORTEST_NS), lengthOf(all));
  const low = Math.min(Math.max(span.low, all.low), all.high - length);
  return { low, high: low + length };
}

/** The window `factor` times as long, with the time at `share` of its width in place. */
export function zoomed(span: Span, factor: number, share: number, all: Span): Span {
  const length = Math.max(lengthOf(span) * factor, SHORTEST_NS);
  const low = span.low + share * (lengthOf(span) - length);
  return within({ low, high: low + length }, all);
}

/** The window moved by a share of its length. */
export function moved(span: Span, share: number, all: Span): Span {
  const by = share * lengthOf(span);
  return within({ low: span.low + by, high: span.high + by }, all);
}

/** Times for the marks of an axis: 1, 2 or 5 times a power of ten apart, at most `most` of them. */
export function ticks(span: Span, most: number): readonly number[] {
  const least = lengthOf(span) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= least) ?? power;
  const first = Math.ceil(span.low / step) * step;
  const count = Math.max(Math.floor((span.high - first) / step) + 1, 0);
  return Array.from({ length: count }, (_, index) => first + index * step);
}

/** The item of a lane at a time, counted from the start of its columns; -1: none. */
export function itemAt(items: LaneItems, offset: number, slack: number): number {
  let low = 0;
  let high = items.offset_ns.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((items.offset_ns[middle] ?? 0) <= offset + slack) low = middle + 1;
    else high = middle;
  }
  for (let index = low - 1; index >= Math.max(low - 3, 0); index -= 1) {
    const end = (items.offset_ns[index] ?? 0) + (items.duration_ns[index] ?? 0);
    if (end + slack >= offset) return index;
  }
  return -1;
}

/** A window as the address has it, and back; null: it is none. */
export function spanText({ low, high }: Span): string {
  return `${Math.round(low)}-${Math.round(high)}`;
}

export function readSpan(text: string | undefined, all: Span): Span | null {
  const found = /^(-?\d{1,19})-(-?\d{1,19})$/.exec(text ?? "");
  if (found === null) return null;
  const [low, high] = [Number(found[1]), Number(found[2])];
  if (!(low < high) || high <= all.low || low >= all.high) return null;
  return within({ low, high }, all);
}
