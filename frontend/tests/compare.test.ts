import { describe, expect, it } from "vitest";
import type { ComparisonSummary } from "../src/api/types";
import { typeset } from "../src/lib/text";
import { icicleBoxes, moduleTree, stepChange, waterfallBars } from "../src/views/compare/model";

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

describe("the change of the step", () => {
  const found = (more: object) =>
    ({
      ...{ base: { step_ns: "400" }, new: { step_ns: "600" }, difference_ns: "200" },
      ...{ interval_ns: [100, 300], verdict: "cannot tell", covers_runs: false, samples: null },
      ...more,
    }) as unknown as ComparisonSummary;

  it("is not confirmed where only runs could explain it", () => {
    const change = stepChange(found({}));
    expect([change.base, change.next, change.verdict]).toEqual([400, 600, "not confirmed"]);
    expect(stepChange(found({ interval_ns: [-1, 300] })).verdict).toBe("cannot tell");
    expect(stepChange(found({ verdict: "slower", covers_runs: true })).verdict).toBe("slower");
  });

  it("is that of a sample where the batch sizes differ", () => {
    const change = stepChange(found({ samples: [4, 12], covers_runs: true, verdict: "faster" }));
    expect([change.base, change.next]).toEqual([100, 50]);
    expect(change.verdict).toBe("faster");
    expect(change.interval).toEqual([25, 75]);
  });

  it("is shown with real arrows and minus signs", () => {
    expect(typeset("base -> new: -1.5 ms (-2 %), no-op 4-5")).toBe(
      "base → new: −1.5 ms (−2 %), no-op 4-5",
    );
  });
});
