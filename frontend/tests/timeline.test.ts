import { describe, expect, it } from "vitest";
import type { LaneItems } from "../src/api/types";
import { itemAt, moved, readSpan, spanText, ticks, within, zoomed } from "../src/lib/timeline";

const ALL = { low: 0, high: 10_000 };

describe("windows", () => {
  it("stay within all of the time", () => {
    expect(within({ low: -50, high: 950 }, ALL)).toEqual({ low: 0, high: 1_000 });
    expect(moved({ low: 9_000, high: 10_000 }, 0.5, ALL)).toEqual({ low: 9_000, high: 10_000 });
    expect(zoomed({ low: 0, high: 10_000 }, 5, 0.5, ALL)).toEqual(ALL);
  });
  it("keep the time under the pointer when they are zoomed", () => {
    const { low, high } = zoomed({ low: 2_000, high: 4_000 }, 0.5, 0.25, ALL);
    expect(low + 0.25 * (high - low)).toBe(2_500);
    expect(high - low).toBe(1_000);
  });
  it("are read from the address as they were written", () => {
    const span = { low: 123, high: 4_567 };
    expect(readSpan(spanText(span), ALL)).toEqual(span);
    expect(readSpan("5-5", ALL)).toBeNull();
    expect(readSpan("a-b", ALL)).toBeNull();
    expect(readSpan("20000-30000", ALL)).toBeNull();
  });
});

describe("ticks", () => {
  it("are round numbers, and not too many", () => {
    expect(ticks({ low: 130, high: 1_020 }, 10)).toEqual([
      200, 300, 400, 500, 600, 700, 800, 900, 1_000,
    ]);
    expect(ticks({ low: 0, high: 1 }, 5)).toEqual([0, 1]);
  });
});

describe("the item at a time", () => {
  const items = {
    offset_ns: [0, 10, 30],
    duration_ns: [5, 10, 0],
  } as unknown as LaneItems;
  it("is the one that holds it, or lies within the slack", () => {
    expect(itemAt(items, 3, 0)).toBe(0);
    expect(itemAt(items, 7, 0)).toBe(-1);
    expect(itemAt(items, 15, 0)).toBe(1);
    expect(itemAt(items, 28, 3)).toBe(2);
    expect(itemAt(items, 40, 3)).toBe(-1);
  });
});
