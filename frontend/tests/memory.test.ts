import { describe, expect, it } from "vitest";
import type { MemoryCurve } from "../src/api/types";
import { areas, linePath, peakWithin, pointAt } from "../src/lib/memory";
import { bytesText } from "../src/lib/units";

const CURVE: MemoryCurve = {
  recording: 1,
  low: 0,
  high: 100,
  event: [0, 1, 2],
  at: [0, 40, 60],
  allocated_bytes: [10, 30, 20],
  active_bytes: [10, 30, 20],
  reserved_bytes: [40, 40, 40],
  kinds: [
    { kind: "parameter", bytes: [10, 10, 10] },
    { kind: "activation", bytes: [0, 20, 10] },
  ],
};
const FRAME = { low: 0, high: 100, width: 100, height: 40, most: 40 };

describe("the curve of memory", () => {
  it("keeps each count until the next event", () => {
    expect(linePath(FRAME, CURVE.at, CURVE.allocated_bytes)).toBe(
      "M0.0 30.0L40.0 30.0L40.0 10.0L60.0 10.0L60.0 20.0L100.0 20.0",
    );
  });

  it("stacks the kinds", () => {
    const [below, above] = areas(FRAME, CURVE);
    expect(below?.path.startsWith("M0.0 30.0L40.0 30.0")).toBe(true);
    // The upper edge is what is allocated, the lower edge that of the kind below.
    expect(above?.path).toBe(
      "M0.0 30.0L40.0 30.0L40.0 10.0L60.0 10.0L60.0 20.0L100.0 20.0" +
        "L100.0 30.0L60.0 30.0L60.0 30.0L40.0 30.0L40.0 30.0L0.0 30.0Z",
    );
  });

  it("finds points and the peak of a part", () => {
    expect([-5, 0, 39, 40, 99].map((place) => pointAt(CURVE.at, place))).toEqual([0, 0, 0, 1, 2]);
    expect(pointAt([], 5)).toBe(-1);
    expect(peakWithin(CURVE, 0, 100)).toBe(1);
    expect(peakWithin(CURVE, 60, 100)).toBe(2);
    expect(peakWithin(CURVE, 10, 30)).toBe(0);
  });

  it("writes bytes in powers of a thousand", () => {
    expect([0, 512, 1500, 25_178_406_912].map(bytesText)).toEqual([
      "0 B",
      "512 B",
      "1.50 kB",
      "25.18 GB",
    ]);
  });
});
