import { describe, expect, it } from "vitest";
import type { PerformanceSummary } from "../src/api/types";
import { stepOf } from "../src/views/dashboard/StepChip";

const NO_STEP = {
  bare_step_ns: null,
  given_step_ns: null,
  step_ns: null,
  iter_median_ns: 19_000_000,
  iter_avg_ns: 20_000_000,
};

describe("the step time of the page", () => {
  it("is the mean iteration where no step was found", () => {
    const data = { ...NO_STEP, loop_steps: 0 } as unknown as PerformanceSummary;
    expect(stepOf(data)).toEqual({ ns: 20_000_000, words: "Average iteration time" });
  });

  it("is the median iteration of a database that counts no steps", () => {
    const data = { ...NO_STEP, loop_steps: null } as unknown as PerformanceSummary;
    expect(stepOf(data).ns).toBe(19_000_000);
  });
});
