import { describe, expect, it } from "vitest";
import {
  axisTop,
  barAt,
  barHeights,
  boundLabels,
  cutLabels,
  drawFigure,
  type FigureBar,
  type IterationFigure,
  panned,
  presentParts,
  presentPhases,
  scaled,
  ticks,
} from "../src/charts/iterationFigure";

function bar(index: number, ms: number, kind: FigureBar["kind"] = "iteration"): FigureBar {
  const ns = ms * 1e6;
  const length = { duration_ns: ns, shortest_ns: ns, longest_ns: ns };
  const is_profiled = kind === "iteration";
  return { first: index, last: index, kind, is_profiled, phase: null, ...length };
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

const FRAME = { left: 56, right: 984 };

function draw(isFullHeight: boolean, hidden: string[] = []) {
  return drawFigure(figure(), {
    hidden: new Set(hidden),
    bounds: [1, 3],
    width: 1000,
    height: 300,
    isFullHeight,
  });
}

/** The lowest and the highest place that a path of rectangles reaches. */
function reach(path: string): [number, number] {
  const tops = [...path.matchAll(/M[\d.]+ ([\d.]+)h[\d.]+v([\d.]+)/g)];
  const ends = tops.map(([, y, tall]) => Number(y) + Number(tall));
  return [Math.min(...tops.map(([, y]) => Number(y))), Math.max(...ends)];
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
    expect(draw(false).cuts.map((label) => label.text)).toEqual(["▲ 9.000 s"]);
    expect(draw(false).isCut).toBe(true);
  });

  it("cuts nothing off when asked for the full height", () => {
    expect(draw(true).isCut).toBe(false);
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

  it("writes no length over another: neighbors share the longest", () => {
    const near = [
      { x: 60, ns: 9e9 },
      { x: 80, ns: 300e6 },
      { x: 600, ns: 2e9 },
      { x: 980, ns: 1e9 },
    ];
    expect(cutLabels(near, FRAME)).toEqual([
      { x: 60, anchor: "start", text: "▲ up to 9.000 s" },
      { x: 600, anchor: "start", text: "▲ 2.000 s" },
      { x: 980, anchor: "end", text: "▲ 1.000 s" },
    ]);
  });

  it("writes the words at the bounds of any range side by side", () => {
    const text = (start: number | null, stop: number | null) =>
      boundLabels(start, stop, FRAME).map(({ anchor, text }) => `${text} ${anchor}`);
    expect(text(100, 900)).toEqual(["Start start", "Stop end"]);
    expect(text(500, 510)).toEqual(["Start end", "Stop start"]);
    expect(text(56, 66)).toEqual(["Start, stop start"]);
    expect(text(970, 984)).toEqual(["Start, stop end"]);
    expect(text(null, 60)).toEqual(["Stop start"]);
    expect(text(980, null)).toEqual(["Start end"]);
  });

  it("draws the bounds between the bars", () => {
    const { bounds, bars } = draw(false);
    const [first, last] = [bars[1], bars[3]];
    expect(bounds).toHaveLength(2);
    expect(bounds[0]).toBeLessThan(first?.x ?? 0);
    expect(bounds[1]).toBeGreaterThan((last?.x ?? 0) + (last?.width ?? 0));
  });

  it("stacks the parts on each other, and leaves the axis as it is when one is hidden", () => {
    const [tc, cpu] = draw(false).parts;
    expect(reach(tc?.path ?? "")[1]).toBe(260);
    expect(reach(cpu?.path ?? "")[1]).toBeCloseTo(reach(tc?.path ?? "")[0] + 7, -1);
    const hidden = draw(false, ["cpu"]);
    expect(hidden.parts.map(({ part }) => part)).toEqual(["tc", "io", "outside"]);
    expect(hidden.parts[0]?.path).toBe(tc?.path);
    expect(hidden.yTicks).toEqual(draw(false).yTicks);
  });

  it("hatches what is not part of the loop", () => {
    expect(draw(false).hatched.split("z")).toHaveLength(2);
  });

  it("shows the longest of the iterations that share a bar", () => {
    const base = figure();
    const shared = { ...bar(2, 60), last: 9, longest_ns: 80e6 };
    const bars = [bar(0, 60), bar(1, 60), shared];
    const many = { ...base, layout: { meta: { ...base.layout.meta, last: 9, bars } } };
    const size = { hidden: new Set<string>(), bounds: null, width: 1000, height: 300 };
    const drawn = drawFigure(many, { ...size, isFullHeight: false });
    expect(drawn.spikes).toMatch(/^M[\d.]+ [\d.]+V[\d.]+$/);
    expect(draw(false).spikes).toBe("");
  });

  it("chooses the unit for what is seen, not for what is cut off", () => {
    expect(draw(false).unit).toBe("ms");
    expect(draw(true).unit).toBe("s");
  });

  it("finds the bar below the pointer, or the nearest", () => {
    const bars = [
      { x: 10, width: 8 },
      { x: 20, width: 8 },
    ];
    expect([0, 12, 19, 24, 99].map((x) => barAt(bars, x))).toEqual([0, 0, 1, 1, 1]);
  });

  it("has round ticks", () => {
    expect(ticks(0, 107, 5)).toEqual([0, 50, 100]);
    expect(ticks(3, 9, 12, 1)).toEqual([3, 4, 5, 6, 7, 8, 9]);
    expect(ticks(0, 400, 12, 1)).toHaveLength(9);
  });
});

describe("zooming", () => {
  it("stays within the limits when it is moved or scaled", () => {
    expect(panned([10, 19], -30, [3, 99])).toEqual([3, 12]);
    expect(panned([10, 19], 500, [3, 99])).toEqual([90, 99]);
    expect(scaled([10, 19], 1 / 2, [0, 99])).toEqual([12, 16]);
    expect(scaled([0, 9], 2, [0, 99])).toEqual([0, 19]);
    expect(scaled([0, 59], 2, [0, 99])).toBeNull();
    expect(scaled([7, 7], 1 / 2, [0, 99])).toEqual([7, 7]);
  });
});

it("shows the phases as strips below the bars, in order of the first of each", () => {
  const { data, layout } = figure();
  const bars = layout.meta.bars.map((one, index) => ({
    ...one,
    phase: [null, "prefill", "decode", "decode"][index] ?? null,
  }));
  const phased = { data, layout: { meta: { ...layout.meta, bars } } };
  const options = { hidden: new Set<string>(), bounds: null, width: 1000, height: 300 };
  const drawn = drawFigure(phased, { ...options, isFullHeight: false });
  expect(presentPhases(phased)).toEqual(["prefill", "decode"]);
  const strips = drawn.phases.map((path) => path.match(/M/g)?.length);
  expect(strips).toEqual([1, 2]);
  expect(drawn.phases[0]).toContain(`M${drawn.bars[1]?.x.toFixed(1)} `);
  expect(draw(false).phases).toEqual([]);
});
