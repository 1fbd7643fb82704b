import { describe, expect, it } from "vitest";
import type { AdviceRow } from "../src/api/types";
import {
  gainOf,
  marksOf,
  readDrillDown,
  readEvidence,
  readLink,
} from "../src/views/dashboard/advice";
import { evidenceCount, evidenceTime } from "../src/views/dashboard/FindingPicture";

const FOUND = {
  gain_ns: 9_000_000,
  gain_pct: 90,
  most_ns: null,
  most_pct: null,
  gain_bound: "at_most",
  evidence: "[]",
};

function row(values: Partial<AdviceRow>): AdviceRow {
  return { ...FOUND, drill_down: null, ...values } as AdviceRow;
}

describe("what advice could save", () => {
  it("is a time first, then its share", () => {
    const gain = gainOf(row({}), true);
    expect(gain).toMatchObject({ short: "−9 ms", share: "90 %" });
    expect(gain?.text).toBe("up to 9 ms per step (90 %)");
    expect(gainOf(row({ gain_ns: 28_290_000 }), true)?.short).toBe("−28.3 ms");
    expect(gainOf(row({ gain_pct: null }), true)?.text).toBe("up to 9 ms per step");
    expect(gainOf(row({ gain_ns: null, gain_pct: null }), true)).toBeNull();
  });

  it("is the least that is known where the profiled CPU limits it", () => {
    const gain = gainOf(row({ gain_ns: 1_533_000, gain_pct: 3.5, gain_bound: "at_least" }), true);
    expect(gain?.short).toBe("≥ 1.53 ms");
    expect(gain?.text).toMatch(/^at least 1.53 ms per step/);
    const most = { most_ns: 23_500_000, most_pct: 54.1 };
    expect(gainOf(row({ gain_ns: 104_000, gain_pct: 0.3, ...most }), true)).toMatchObject({
      short: "0.10–23.50 ms",
      share: "0–54 %",
    });
  });

  it("is a factor of the throughput, or a share, where there is no time", () => {
    const perSample = row({ gain_ns: null, gain_pct: 75 });
    expect(gainOf(perSample, true)?.text).toBe("up to 4x throughput");
    expect(gainOf(perSample, false)?.text).toBe("up to 75 % of the step");
  });
});

describe("links of advice", () => {
  it("lead to views of the list with their filters", () => {
    const link = { view: "ops", params: { "ops.f.op_id__in": "A,B", page: 3 } };
    expect(readLink(link)).toEqual({ view: "ops", patch: { "ops.f.op_id__in": "A,B" } });
    expect(readDrillDown(row({ drill_down: JSON.stringify(link) }))?.view).toBe("ops");
    expect(readLink({ ...link, total: 69 })?.total).toBe(69);
  });

  it("lead to the work on the timeline that the evidence names first", () => {
    const items = (...named: object[]) => readEvidence(row({ evidence: JSON.stringify(named) }));
    const setting = { kind: "setting", name: "pin_memory=True" };
    const op = {
      kind: "op",
      name: "ITEM_1 /item",
      link: { view: "ops", params: { op: "ITEM_1" } },
    };
    expect(marksOf(items(setting))).toBeNull();
    expect(marksOf(items(setting, op))).toEqual({ op: "ITEM_1" });
    expect(marksOf(items({ kind: "kernel", name: "gemm" }, op))).toEqual({ kernel: "gemm" });
    expect(marksOf(items({ kind: "iteration", name: "14" }))).toEqual({ iteration: "14" });
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
      { kind: "kernel", name: "k", time_ns: 40, count: 8, steps: 4, link: null },
      { kind: "setting", name: "num_workers=0", time_ns: null, count: null, link: null },
      "broken",
    ]);
    const items = readEvidence(row({ evidence }));
    expect(items.map((item) => [item.kind, item.timeNs, item.count])).toEqual([
      ["op", 5, 2],
      ["kernel", 40, 8],
      ["setting", null, null],
    ]);
    expect(items[0]?.link?.patch).toEqual({ op: "A" });
    const [op, kernel] = items;
    const scale = { isPerStep: true, steps: 5 };
    expect(op && evidenceTime(op, scale)).toBe("1 ns/step");
    expect(kernel && evidenceTime(kernel, scale)).toBe("10 ns/step");
    expect(kernel && evidenceCount(kernel, scale)).toBe("2/step");
    expect(kernel && evidenceCount(kernel, { isPerStep: false, steps: 1 })).toBe("8 total");
  });

  it("of a damaged database is none", () => {
    expect(readEvidence(row({ evidence: "{}" }))).toEqual([]);
    expect(readEvidence(row({ evidence: null }))).toEqual([]);
  });
});
