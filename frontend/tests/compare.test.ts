import { describe, expect, it } from "vitest";
import type { ComparisonSummary } from "../src/api/types";
import { icicleBoxes, moduleTree, waterfallBars } from "../src/views/compare/model";

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
    } as unknown as ComparisonSummary;
    const bars = waterfallBars(found, ["base", "new"]);
    expect(bars.map((bar) => bar.name)).toEqual(["base", "copy", "tail", "new"]);
    expect(bars.at(-2)?.stop).toBe(90.25);
    expect(bars.at(-1)?.stop).toBe(90.25);
  });

  it("place modules in the one that they are in", () => {
    const root = moduleTree([
      { path: "/", base_ns: 16, new_ns: 27 },
      { path: "/a/", base_ns: 15, new_ns: 25 },
      { path: "/a/b/", base_ns: 10, new_ns: 20 },
      { path: "/copy/", base_ns: 1, new_ns: 2 },
    ]);
    expect([root.base, root.new]).toEqual([16, 27]);
    expect(root.parts.get("a")?.parts.get("b")?.path).toBe("/a/b");
    const boxes = icicleBoxes(root, 8, 0);
    expect(boxes[0]?.width).toBe(1);
    expect(boxes.filter((box) => box.depth === 1).reduce((sum, box) => sum + box.width, 0)).toBe(1);
  });
});
