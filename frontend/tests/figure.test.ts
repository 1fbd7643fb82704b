import { describe, expect, it } from "vitest";
import {
  axisTop,
  barHeights,
  cutMarks,
  type FigureBar,
  type IterationFigure,
  panned,
  prepareFigure,
  presentParts,
  scaled,
  zoomFromRelayout,
} from "../src/charts/iterationFigure";

const TOKENS = { text: "", muted: "", grid: "", surface: "", bound: "#111", font: "" };

function bar(index: number, ms: number, kind: FigureBar["kind"] = "iteration"): FigureBar {
  const ns = ms * 1e6;
  const length = { duration_ns: ns, shortest_ns: ns, longest_ns: ns };
  return { first: index, last: index, kind, is_profiled: kind === "iteration", ...length };
}

/** Interval 0 of 9 s, then iterations of 60 ms. */
function figure(): IterationFigure {
  const bars = [bar(0, 9_000, "before"), bar(1, 60), bar(2, 60), bar(3, 66)];
  return {
    data: [
      { x: [0, 1, 2, 3], y: [null, 40, 40, 44], meta: { part: "tc" } },
      { x: [0, 1, 2, 3], y: [null, 20, 20, 22], meta: { part: "cpu" } },
      { x: [0, 1, 2, 3], y: [null, 0, 0, 0], meta: { part: "io" } },
      { x: [0, 1, 2, 3], y: [9_000, null, null, null], meta: { part: "outside" } },
    ],
    layout: { meta: { unit: "ms", unit_ns: 1e6, bucket_size: 1, first: 0, last: 3, bars } },
  };
}

function prepare(isFullHeight: boolean, hidden: string[] = []) {
  return prepareFigure(figure(), {
    tokens: TOKENS,
    hidden: new Set(hidden),
    bounds: [1, 3],
    height: 300,
    isFullHeight,
  });
}

describe("the iteration chart", () => {
  it("offers the parts that are there", () => {
    expect(presentParts(figure())).toEqual(["tc", "cpu", "outside"]);
  });

  it("adds up what is not hidden", () => {
    expect(barHeights(figure(), new Set())).toEqual([9_000, 60, 60, 66]);
    expect(barHeights(figure(), new Set(["cpu"]))).toEqual([9_000, 40, 40, 44]);
  });

  it("cuts off what lies outside of the aggregation and dwarfs it, and says so", () => {
    const heights = barHeights(figure(), new Set());
    const top = axisTop(heights, figure().layout.meta.bars, [1, 3], false);
    expect(top).toBeGreaterThan(66);
    expect(top).toBeLessThan(200);
    expect(cutMarks(figure(), heights, top)).toEqual([{ x: 0, text: "9.000 s" }]);
    expect(prepare(false).isCut).toBe(true);
  });

  it("cuts nothing off when asked for the full height", () => {
    expect(prepare(true).isCut).toBe(false);
  });

  it("cuts off a slow first iteration, so that the others can be seen", () => {
    const bars = [bar(0, 1_000), bar(1, 50), bar(2, 50), bar(3, 60), bar(4, 50)];
    const top = axisTop([1_000, 50, 50, 60, 50], bars, [0, 4], false);
    expect(top).toBe(90);
  });

  it("cuts nothing off when no length is typical", () => {
    const bars = [10, 500, 20, 900, 15, 700, 700, 30].map((ms, index) => bar(index, ms));
    const heights = bars.map((one) => one.duration_ns / 1e6);
    expect(axisTop(heights, bars, null, false)).toBeGreaterThan(900);
  });

  it("names neighbors that are cut off only once", () => {
    const bars = [bar(0, 9_000, "before"), bar(1, 300), bar(2, 60)];
    const base = figure();
    const many = {
      ...base,
      layout: { meta: { ...base.layout.meta, first: 0, last: 100, bars } },
    };
    expect(cutMarks(many, [9_000, 300, 60], 100)).toEqual([{ x: 0, text: "up to 9.000 s" }]);
  });

  it("draws the bounds between the bars", () => {
    const shapes = prepare(false).layout.shapes as { x0: number }[];
    expect(shapes.map((shape) => shape.x0)).toEqual([0.5, 3.5]);
  });

  it("hatches what is not part of the loop", () => {
    const [first] = prepare(false).data;
    expect(first?.marker).toMatchObject({ pattern: { shape: ["/", "", "", ""] } });
  });

  it("chooses the unit for what is seen, not for what is cut off", () => {
    const title = (prepared: ReturnType<typeof prepare>) =>
      (prepared.layout.yaxis as { title: { text: string } }).title.text;
    expect(title(prepare(false))).toBe("Duration (ms)");
    expect(title(prepare(true))).toBe("Duration (s)");
  });
});

describe("zooming", () => {
  const meta = figure().layout.meta;

  it("gives the iterations that are in the picture", () => {
    const change = { "xaxis.range[0]": 0.7, "xaxis.range[1]": 2.2 };
    expect(zoomFromRelayout(change, meta)).toEqual([1, 2]);
  });

  it("ends with a double click", () => {
    expect(zoomFromRelayout({ "xaxis.autorange": true }, meta)).toBeNull();
  });

  it("is moved by a range that is as wide as before", () => {
    const meta = { ...figure().layout.meta, first: 10, last: 19 };
    const change = { "xaxis.range[0]": 14.4, "xaxis.range[1]": 24.6 };
    expect(zoomFromRelayout(change, meta, [0, 99])).toEqual([15, 24]);
    expect(zoomFromRelayout(change, meta, [0, 21])).toEqual([12, 21]);
  });

  it("stays within the limits when it is moved or scaled", () => {
    expect(panned([10, 19], -30, [3, 99])).toEqual([3, 12]);
    expect(panned([10, 19], 500, [3, 99])).toEqual([90, 99]);
    expect(scaled([10, 19], 1 / 2, [0, 99])).toEqual([12, 16]);
    expect(scaled([0, 9], 2, [0, 99])).toEqual([0, 19]);
    expect(scaled([0, 59], 2, [0, 99])).toBeNull();
    expect(scaled([7, 7], 1 / 2, [0, 99])).toEqual([7, 7]);
  });

  it("has nothing to do with other changes", () => {
    expect(zoomFromRelayout({ width: 700 }, meta)).toBeUndefined();
  });
});
