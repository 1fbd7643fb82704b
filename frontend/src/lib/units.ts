/** The one place that turns nanoseconds, counts and percentages into text. */

import { t } from "../i18n";

export type TimeUnit = "ns" | "µs" | "ms" | "s" | "min";

export const NS_PER_UNIT: Record<TimeUnit, number> = {
  ns: 1,
  µs: 1_000,
  ms: 1_000_000,
  s: 1_000_000_000,
  min: 60_000_000_000,
};

export interface Quantity {
  readonly value: string;
  readonly unit: string;
}

/** What stands for a value that is not known; never 0. */
export const UNKNOWN = "–";

const integerFormat = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** 17129 -> "17,129". */
export function formatInt(value: number): string {
  return integerFormat.format(value);
}

/** A number of calls, which is seldom whole per step: 17,129, 12.5, 0.25. */
export function formatCount(value: number): string {
  if (Number.isInteger(value) || value >= 100) return formatInt(value);
  return String(Number(value.toPrecision(3)));
}

/** Formats by their number of decimals: making one takes as long as formatting a hundred numbers. */
const fixedFormats = new Map<number, Intl.NumberFormat>();

/** A number with exactly `digits` decimals and thousands separators. */
export function formatFixed(value: number, digits: number): string {
  let format = fixedFormats.get(digits);
  if (format === undefined) {
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    format = new Intl.NumberFormat("en-US", options);
    fixedFormats.set(digits, format);
  }
  return format.format(value);
}

/** The unit in which a duration of this length is read most easily. Seconds go up to two minutes. */
export function pickTimeUnit(ns: number): TimeUnit {
  const size = Math.abs(ns);
  if (size < 1_000) return "ns";
  if (size < 1_000_000) return "µs";
  if (size < 1_000_000_000) return "ms";
  return size < 120 * NS_PER_UNIT.s ? "s" : "min";
}

/** Decimals that leave about four significant digits. */
function decimalsFor(value: number): number {
  const size = Math.abs(value);
  if (size >= 1000) return 0;
  if (size >= 100) return 1;
  return size >= 10 ? 2 : 3;
}

/** A duration in the unit that suits it, about four significant digits: 201.4 ms, 3.150 min. */
export function formatDuration(ns: number): Quantity {
  const unit = pickTimeUnit(ns);
  const value = ns / NS_PER_UNIT[unit];
  return { value: formatFixed(value, unit === "ns" ? 0 : decimalsFor(value)), unit };
}

/** `formatDuration` as one string. */
export function durationText(ns: number): string {
  const { value, unit } = formatDuration(ns);
  return `${value} ${unit}`;
}

/** "51.20–53.98 ms", in the unit of the longer one. */
export function durationRange(shortest: number, longest: number): string {
  const unit = pickTimeUnit(longest);
  const digits = unit === "ns" ? 0 : decimalsFor(longest / NS_PER_UNIT[unit]);
  const [low, high] = [shortest, longest].map((ns) => formatFixed(ns / NS_PER_UNIT[unit], digits));
  return `${low}–${high} ${unit}`;
}

/**
 * A duration in a unit with three decimals (so ms show µs, and µs show ns, exactly); no time at all
 * is "0", and some time never looks like none.
 */
export function formatTimeIn(ns: number, unit: TimeUnit): string {
  if (ns === 0) return "0";
  if (unit !== "ns" && Math.abs(ns) < 0.0005 * NS_PER_UNIT[unit]) return "<0.001";
  return formatFixed(ns / NS_PER_UNIT[unit], unit === "ns" ? 0 : 3);
}

/** The exact value for a tooltip: "258,612,308 ns". */
export function exactNs(ns: number): string {
  return `${formatInt(ns)} ns`;
}

/** A percentage with one decimal; what is small but not nothing is shown as "<0.1". */
export function formatPct(pct: number): string {
  if (pct > 0 && pct < 0.05) return "<0.1";
  if (pct < 100 && pct >= 99.95) return ">99.9";
  return formatFixed(pct, 1);
}

/** A number of seconds: "8 s", "2 min 5 s". */
export function formatSeconds(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  return t("{min} min {s} s", { min: Math.floor(whole / 60), s: whole % 60 });
}

/** "1 op", "2 ops". */
export function countOf(count: number, noun: readonly [one: string, many: string]): string {
  return t("{count} {things}", {
    count: formatInt(count),
    things: count === 1 ? noun[0] : noun[1],
  });
}

const UNITS = [
  ["GB", 1e9],
  ["MB", 1e6],
  ["kB", 1e3],
] as const;

/** 25,178,406,912 -> "25.18 GB". */
export function bytesText(bytes: number): string {
  for (const [unit, size] of UNITS) {
    if (Math.abs(bytes) >= size) return `${formatFixed(bytes / size, 2)} ${unit}`;
  }
  return `${formatFixed(bytes, 0)} B`;
}
