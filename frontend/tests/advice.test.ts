import { describe, expect, it } from "vitest";
import type { AdviceRow } from "../src/api/types";
import { gainText, readDrillDown, readEvidence, readLink } from "../src/views/dashboard/advice";

function row(values: Partial<AdviceRow>): AdviceRow {
  return {
    place: 1,
    advice: "launch_bound",
    status: "found",
    severity: "high",
    gain_ns: 9_000_000,
    gain_pct: 90,
    gain_source: "replay",
    certainty: "likely",
    problem: "",
    recommendation: "",
    reasoning: "",
    needs: null,
    frameworks: "all",
    drill_down: null,
    evidence: "[]",
    proof_query: null,
    proof_column: null,
    proof_value: null,
    ...values,
  };
}

describe("what advice could save", () => {
  it("is a time first, then its share", () => {
    expect(gainText(row({}), true)).toBe("could save up to 9.000 ms (90%)");
    expect(gainText(row({ gain_pct: null }), true)).toBe("could save up to 9.000 ms");
    expect(gainText(row({ gain_ns: null, gain_pct: null }), true)).toBeNull();
  });

  it("is a share where there is no time", () => {
    const perSample = row({ gain_ns: null, gain_pct: 12.4 });
    expect(gainText(perSample, true)).toBe("could save up to 12% of the time per sample");
    expect(gainText(perSample, false)).toBe("could save up to 12% of the step");
  });
});

describe("links of advice", () => {
  it("lead to views of the list with their filters", () => {
    const link = { view: "ops", params: { "ops.f.op_id__in": "A,B", page: 3 } };
    expect(readLink(link)).toEqual({ view: "ops", patch: { "ops.f.op_id__in": "A,B" } });
    expect(readDrillDown(row({ drill_down: JSON.stringify(link) }))?.view).toBe("ops");
  });

  it("lead nowhere else, whatever a database says", () => {
    for (const view of ["javascript:alert(1)", "dashboard", "__proto__", "", 7, null]) {
      expect(readLink({ view, params: {} })).toBeNull();
    }
    expect(readDrillDown(row({ drill_down: "{broken" }))).toBeNull();
    expect(readLink([])).toBeNull();
  });
});

describe("evidence", () => {
  it("keeps known values and leaves unknown values unknown", () => {
    const evidence = JSON.stringify([
      { kind: "op", name: "A", time_ns: 5, count: 2, link: { view: "ops", params: { op: "A" } } },
      { kind: "setting", name: "num_workers=0", time_ns: null, count: null, link: null },
      "broken",
    ]);
    const items = readEvidence(row({ evidence }));
    expect(items.map((item) => [item.kind, item.timeNs, item.count])).toEqual([
      ["op", 5, 2],
      ["setting", null, null],
    ]);
    expect(items[0]?.link?.patch).toEqual({ op: "A" });
  });

  it("of a damaged database is none", () => {
    expect(readEvidence(row({ evidence: "{}" }))).toEqual([]);
    expect(readEvidence(row({ evidence: null }))).toEqual([]);
  });
});
