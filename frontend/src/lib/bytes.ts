/** Sizes as text. */

import { formatFixed } from "./units";

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
