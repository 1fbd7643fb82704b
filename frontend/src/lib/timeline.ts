/** Windows of time, in ns after the first event of a timeline, and what an address says of them. */

import { formatFixed, NS_PER_UNIT, pickTimeUnit } from "./units";

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

/** The window around an event, which takes a third of the width. */
export function around(start: number, duration: number, all: Span): Span {
  const length = Math.max(duration, SHORTEST_NS);
  return within({ low: start - length, high: start + 2 * length }, all);
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

/** A moment with as many decimals as distinguish it from one that is `gap` ns away: "18.40013 s". */
export function momentText(ns: number, gap: number): string {
  const unit = pickTimeUnit(ns);
  const digits = Math.ceil(Math.log10(NS_PER_UNIT[unit] / Math.max(gap, 1)) - 1e-9);
  return `${formatFixed(ns / NS_PER_UNIT[unit], Math.min(Math.max(digits, 0), 9))} ${unit}`;
}

export interface Moments {
  /** What the texts are counted from: "18.400 s"; null: from the start. */
  readonly origin: string | null;
  readonly text: (ns: number) => string;
}

/** More digits than this are read as a distance from an origin. */
const MOST_DIGITS = 1e5;

/** Texts of moments that differ where the moments do: whole, or as distances from an origin. */
export function moments(times: readonly number[]): Moments {
  const sorted = [...new Set(times)].sort((a, b) => a - b);
  const gaps = sorted.slice(1).map((time, index) => time - (sorted[index] ?? 0));
  const low = sorted[0] ?? 0;
  const high = sorted.at(-1) ?? 0;
  const gap = gaps.length === 0 ? Math.max(high, 1) / 1_000 : Math.min(...gaps);
  const base = 10 ** Math.ceil(Math.log10(Math.max(high - low, 1)));
  const origin = Math.floor(low / base) * base;
  if (origin <= 0 || high / gap < MOST_DIGITS) {
    return { origin: null, text: (ns) => (ns === 0 ? "0" : momentText(ns, gap)) };
  }
  return { origin: momentText(origin, base), text: (ns) => `+${momentText(ns - origin, gap)}` };
}

/** A time of the profile as text: whole, also beyond 2^53 ns. */
export function absolute(offset: number, origin: bigint): string {
  return String(origin + BigInt(Math.round(offset)));
}

/** In the address: the window that shows everything. */
export const ALL = "all";

/** A window as the address has it, in times of the profile, and back; null: it is none. */
export function spanText({ low, high }: Span, origin = 0n): string {
  return `${absolute(low, origin)}-${absolute(high, origin)}`;
}

export function readSpan(text: string | undefined, all: Span, origin = 0n): Span | null {
  if (text === ALL) return all;
  const found = /^(-?\d{1,19})-(-?\d{1,19})$/.exec(text ?? "");
  if (found === null) return null;
  const [low, high] = [found[1], found[2]].map((part) => Number(BigInt(part ?? "0") - origin));
  if (low === undefined || high === undefined) return null;
  if (!(low < high) || high <= all.low || low >= all.high) return null;
  return within({ low, high }, all);
}

/** What names an event of a timeline: its lane, start and row. */
export interface EventRef {
  readonly lane: string;
  /** In ns after the first event. */
  readonly start: number;
  readonly row: number;
}

export function eventText({ lane, start, row }: EventRef, origin: bigint): string {
  return `${lane}~${absolute(start, origin)}~${row}`;
}

export function readEvent(text: string | undefined, origin: bigint): EventRef | null {
  const found = /^([\w.]{1,200})~(-?\d{1,19})~(\d{1,10})$/.exec(text ?? "");
  if (found === null) return null;
  const [, lane = "", start = "0", row = "0"] = found;
  return { lane, start: Number(BigInt(start) - origin), row: Number(row) };
}

/** Ways to select events, as the API names them. */
export const SELECTORS = ["op", "op_type", "group", "kernel", "search", "iteration"] as const;

export type Selection = Readonly<Partial<Record<(typeof SELECTORS)[number], string>>>;

/** "op=CONV2D_1", as the address has it; null: it selects nothing. */
export function readSelection(text: string | undefined): Selection | null {
  const found = new URLSearchParams(text ?? "");
  const entries = SELECTORS.flatMap((name) => {
    const value = found.get(name);
    return value ? [[name, value] as const] : [];
  });
  return entries.length === 0 ? null : Object.fromEntries(entries);
}

export function selectionText(selection: Selection): string {
  return new URLSearchParams(Object.entries(selection)).toString();
}
