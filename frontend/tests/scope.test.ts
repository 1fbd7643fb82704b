import { describe, expect, it } from "vitest";
import { ApiError } from "../src/api/client";
import type { AggregationsRow, ProfileItem } from "../src/api/types";
import { drawnSlices } from "../src/lib/activities";
import { chooseAggregation, chooseDomain, chooseProfile, steadyOf } from "../src/state/scope";
import { countText } from "../src/table/DataTable";
import { rowAfterKey } from "../src/table/TableBody";

const aggregations = [{ id: 1 }, { id: 3 }, { id: 2 }] as AggregationsRow[];
const profiles = [{ id: "a" }, { id: "b" }] as ProfileItem[];

describe("what the address asks for", () => {
  it("is the newest aggregation when it says nothing", () => {
    expect(chooseAggregation(undefined, aggregations)).toMatchObject({ id: 3 });
    expect(chooseAggregation("1", aggregations)).toMatchObject({ id: 1 });
    const preferred = aggregations.map((one) => ({ ...one, is_default: one.id === 2 }));
    expect(chooseAggregation(undefined, preferred)).toMatchObject({ id: 2 });
    expect(chooseAggregation("3", preferred)).toMatchObject({ id: 3 });
  });

  it("is the steady range, which an import adds last, until another range is aggregated", () => {
    const imported = [
      { id: 1, is_steady: false },
      { id: 2, is_steady: true },
    ] as AggregationsRow[];
    expect(chooseAggregation(undefined, imported)).toMatchObject({ id: 2 });
    expect(steadyOf(imported)).toMatchObject({ id: 2 });
    expect(steadyOf(aggregations)).toBeNull();
    const added = { id: 3, is_steady: false } as AggregationsRow;
    expect(chooseAggregation(undefined, [...imported, added])).toMatchObject({ id: 3 });
  });

  it("is an error with a hint when there is no such thing", () => {
    const error = chooseAggregation("9", aggregations);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ code: "BAD_ADDRESS", hint: "It has: 1, 3, 2." });
    expect(chooseProfile("z", profiles)).toBeInstanceOf(ApiError);
    expect(chooseDomain("Loop", ["default-domain"])).toBeInstanceOf(ApiError);
  });

  it("is the first profile and domain by default", () => {
    expect(chooseProfile(undefined, profiles)).toMatchObject({ id: "a" });
    expect(chooseProfile(undefined, [])).toBeNull();
    expect(chooseDomain(undefined, ["default-domain", "Loop"])).toBe("default-domain");
  });
});

describe("the live count above a table", () => {
  it("says how many of how many", () => {
    expect(countText(["kernel", "kernels"], 1_204, 17_129)).toBe("1,204 of 17,129 kernels");
    expect(countText(["kernel", "kernels"], 17_129, 17_129)).toBe("17,129 kernels");
    expect(countText(["kernel", "kernels"], null, null)).toBe("");
  });
});

describe("a stacked bar", () => {
  const slices = [
    { key: "tc", label: "TC", value: 60 },
    { key: "cpu", label: "CPU", value: 20 },
    { key: "io", label: "I/O", value: 0 },
  ];

  it("has the share of each part in all of them", () => {
    expect(drawnSlices(slices).map((slice) => slice.pct)).toEqual([75, 25]);
    expect(drawnSlices([])).toEqual([]);
  });
});

describe("the arrow keys in a table", () => {
  it("stop at both ends", () => {
    expect(rowAfterKey("ArrowDown", 0, 3)).toBe(1);
    expect(rowAfterKey("ArrowDown", 2, 3)).toBe(2);
    expect(rowAfterKey("ArrowUp", 0, 3)).toBe(0);
    expect(rowAfterKey("End", 0, 3)).toBe(2);
    expect(rowAfterKey("x", 0, 3)).toBeNull();
  });
});
