import { describe, expect, it } from "vitest";
import type { CompareRow, Comparison } from "../src/api/types";
import { icicleBoxes, moduleTree, rounded, waterfallBars } from "../src/views/compare/model";

function row(module: string, op: string, base: number, next: number): CompareRow {
  return {
    class: "other compute",
    reason: "",
    module,
    op,
    op_type: "",
    direction: "",
    match: "same",
    base_name: "",
    base_ns: base,
    new_ns: String(next),
    difference_ns: next - base,
    verdict: "same",
    interval_ns: null,
    within_pct: null,
    q_value: null,
    mann_whitney_p: null,
    base_kernels: [],
    new_kernels: [],
  };
}

describe("a comparison's pictures", () => {
  it("end the waterfall exactly at the new step", () => {
    const classes = [
      { class: "copy", base_ns: 40, new_ns: 10, difference_ns: -30 },
      { class: "set", base_ns: 0, new_ns: 0, difference_ns: 0 },
      { class: "tail", base_ns: "60.5", new_ns: "80.25", difference_ns: "19.75" },
    ];
    const found = {
      classes,
      base: { step_ns: "100.5" },
      new: { step_ns: "90.25" },
    } as unknown as Comparison;
    const bars = waterfallBars(found, ["base", "new"]);
    expect(bars.map((bar) => bar.name)).toEqual(["base", "copy", "tail", "new"]);
    expect(bars.at(-2)?.stop).toBe(90.25);
    expect(bars.at(-1)?.stop).toBe(90.25);
  });

  it("give modules the sums of their rows", () => {
    const root = moduleTree([row("/a/b/", "x", 10, 20), row("/a/", "y", 5, 5), row("/", "", 1, 2)]);
    expect([root.base, root.new]).toEqual([16, 27]);
    expect(root.parts.get("a")?.base).toBe(15);
    expect(root.parts.get("other compute")?.new).toBe(2);
    const boxes = icicleBoxes(root, 8, 0);
    expect(boxes[0]?.width).toBe(1);
    expect(boxes.filter((box) => box.depth === 1).reduce((sum, box) => sum + box.width, 0)).toBe(1);
  });

  it("round columns that add up", () => {
    expect(rounded([333.4, 333.3, 333.3])).toEqual([1, 0, 0]);
    const times = Array.from({ length: 99 }, (_, place) => place * 137.7);
    const sum = times.reduce((total, time) => total + time, 0);
    expect(rounded(times).reduce((total, time) => total + time, 0)).toBe(Math.round(sum / 1000));
  });
});
