import { describe, expect, it } from "vitest";
import {
  drawPoints,
  type Label,
  POINT_MARGIN,
  type PointFigure,
  pointAt,
  powerTicks,
  spread,
} from "../src/charts/pointFigure";

const FIGURE: PointFigure = {
  data: [
    { mode: "lines", name: "float32", x: [1e-3, 10, 1000], y: [0.0048, 48, 48] },
    {
      mode: "markers",
      name: "Bound by memory",
      x: [1, 1],
      y: [10, 10],
      marker: { size: [30, 6], color: "#3b7dd8" },
      customdata: [
        ["ADD_1", 5_000, 50, 2_500],
        ["MUL_1", 10, 20, 8],
      ],
    },
  ],
  layout: {
    xaxis: { title: { text: "Operations per byte" }, range: [-1, 3] },
    yaxis: { title: { text: "TFLOP/s" }, range: [0, 2] },
    annotations: [],
  },
};

describe("points on two logarithmic axes", () => {
  const width = POINT_MARGIN.left + POINT_MARGIN.right + 400;
  const height = POINT_MARGIN.top + POINT_MARGIN.bottom + 200;
  const drawing = drawPoints(FIGURE, width, height);

  it("are where the powers of ten are", () => {
    // 1 is a quarter of the way from 0.1 to 1000, 10 half of that from 1 to 100.
    expect(drawing.points.map(({ x, y }) => [x, y])).toEqual([
      [POINT_MARGIN.left + 100, POINT_MARGIN.top + 100],
      [POINT_MARGIN.left + 100, POINT_MARGIN.top + 100],
    ]);
    expect(drawing.xTicks.map(({ text }) => text)).toEqual(["0.1", "1", "10", "100", "1,000"]);
    expect(drawing.yTicks.map(({ text }) => text)).toEqual(["1", "10", "100"]);
    expect(drawing.lines).toHaveLength(1);
  });

  it("are found under the pointer, small ones before large ones", () => {
    const [x, y] = [POINT_MARGIN.left + 100, POINT_MARGIN.top + 100];
    expect(pointAt(drawing.points, x, y)?.place).toBe(1);
    expect(pointAt(drawing.points, x + 12, y)?.place).toBe(0);
    expect(pointAt(drawing.points, x + 40, y)).toBeNull();
  });

  it("have as many ticks as there is room for", () => {
    expect(powerTicks([-3, 6], 20)).toHaveLength(10);
    expect(powerTicks([-3, 6], 5)).toEqual([-2, 0, 2, 4, 6]);
    expect(powerTicks([0.2, 0.8], 5)).toEqual([]);
  });

  it("have labels that do not cover each other", () => {
    const label = (text: string, y: number): Label => ({ text, x: 0, y, anchor: "end" });
    const ys = spread([label("a", 100), label("b", 98), label("c", 50)]).map(({ y }) => y);
    expect(ys).toEqual([100, 85, 50]);
  });
});
