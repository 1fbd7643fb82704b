import { describe, expect, it } from "vitest";
import type { FigureBar, IterationFigure } from "../src/charts/iterationFigure";
import { sparkShape } from "../src/views/dashboard/Spark";

/** A bar of `count` iterations around a mean. */
function bar(first: number, count: number, ms: number, more: Partial<FigureBar> = {}): FigureBar {
  const ns = ms * 1e6;
  return {
    first,
    last: first + count - 1,
    kind: "iteration",
    is_profiled: true,
    phase: null,
    duration_ns: ns,
    shortest_ns: ns,
    longest_ns: ns,
    ...more,
  };
}

function figure(bars: readonly FigureBar[]): IterationFigure {
  const meta = { unit: "ms", unit_ns: 1e6, bucket_size: 1, first: 0, last: 9_999, bars };
  return { data: [], layout: { meta } };
}

function xs(points: string): number[] {
  return points.split(" ").map((point) => Number(point.split(",")[0]));
}

describe("the line of iteration durations", () => {
  it("spans all of them, however many", () => {
    // 10,000 iterations in 100 bars; a slow one hides behind the mean of the last.
    const bars = Array.from({ length: 100 }, (_, place) => bar(100 * place, 100, 60));
    bars[99] = bar(9_900, 100, 61, { longest_ns: 160e6 });
    const shape = sparkShape(figure(bars));
    expect(shape?.perPoint).toBe(100);
    expect([shape?.shortestNs, shape?.longestNs]).toEqual([60e6, 160e6]);
    expect(shape?.line.split(" ")).toHaveLength(100);
    // The band reaches to the top where the slow one is; the mean stays near the bottom.
    expect(shape?.band.split(" ")[99]).toBe("86.0,2.0");
    expect(shape?.line.split(" ")[99]).toBe("86.0,25.8");
  });

  it("leaves out what was not aggregated, and what lies before the loop", () => {
    const bars = [
      bar(0, 1, 9_000, { kind: "before" }),
      bar(1, 1, 60),
      bar(2, 1, 66),
      bar(3, 1, 60),
      bar(4, 1, 66),
      bar(5, 1, 60),
      bar(6, 1, 700, { is_profiled: false }),
    ];
    expect(sparkShape(figure(bars))).toMatchObject({
      line: "2.0,26.0 23.0,2.0 44.0,26.0 65.0,2.0 86.0,26.0",
      longestNs: 66e6,
      perPoint: 1,
    });
  });

  it("puts points where their iterations are, also where the last bar holds fewer", () => {
    const bars = [0, 10, 20, 30].map((first) => bar(first, 10, 60));
    bars.push(bar(40, 1, 60));
    expect(xs(sparkShape(figure(bars))?.line ?? "")).toEqual([2, 25.7, 49.3, 73, 86]);
  });

  it("draws nothing of a few iterations, or of none", () => {
    expect(sparkShape(figure([1, 2, 3, 4].map((first) => bar(first, 1, 60))))).toBeNull();
    expect(sparkShape({ data: [], layout: {} } as unknown as IterationFigure)).toBeNull();
  });
});
