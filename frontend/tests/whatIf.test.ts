import { expect, it } from "vitest";
import type { RanksRow, WhatIfChange } from "../src/api/types";
import {
  aloneOf,
  effectOf,
  isChosen,
  opTypes,
  patchOf,
  rowsOf,
  scenarioOf,
  UNCHANGED,
  withRow,
  withSpeed,
} from "../src/views/critical/scenario";
import { partsOf } from "../src/views/ranks/RankBars";

const change = (name: string, takes: string, choices: readonly string[] = []): WhatIfChange => ({
  ...{ name, takes, choices, label: name, meaning: "", unit: "", is_bound: false, reason: null },
});
const ROWS = rowsOf(
  [
    change("no_sync", "op"),
    change("link_speed", "number"),
    change("rank_as_median", "rank", ["0", "1"]),
  ],
  ["conv2d"],
  (rank) => `Rank ${rank}`,
);
const [SYNC, , RANK, CONV] = ROWS;

it("has a row for each change that needs no value, each rank and each op type", () => {
  expect(ROWS.map((row) => row.label)).toEqual(["no_sync", "Rank 0", "Rank 1", "conv2d"]);
});

it("combines chosen rows, but a rank goes alone", () => {
  if (SYNC === undefined || RANK === undefined || CONV === undefined) throw new Error("no rows");
  const both = withRow(CONV, true, withRow(SYNC, true, UNCHANGED));
  expect(both).toEqual({ no_sync: "1", speedup: "conv2d=2x" });
  const rank = withRow(RANK, true, both);
  expect(rank).toEqual({ rank_as_median: "1" });
  expect(isChosen(SYNC, rank)).toBe(false);
  expect(withRow(SYNC, true, rank)).toEqual({ no_sync: "1" });
  expect(withRow(CONV, false, both)).toEqual({ no_sync: "1" });
  const four = withSpeed("conv2d", 2, both);
  expect(aloneOf(CONV, four)).toEqual({ speedup: "conv2d=4x" });
  expect(aloneOf(SYNC, four)).toEqual({ no_sync: "1" });
});

it("keeps the scenario in the address", () => {
  const before = { no_sync: "1", speedup: "conv2d=2x;linear=0.5x" };
  const patch = patchOf(before, { speedup: "linear=0.5x", link_speed: "50" });
  expect(patch).toEqual({
    ...{ "if.no_sync": null, "if.speedup": "linear=0.5x", "if.link_speed": "50" },
  });
  const query = new Map([["view", "critical-path"], ...Object.entries(patch)]);
  query.delete("if.no_sync");
  expect(scenarioOf(query as Map<string, string>)).toEqual({
    ...{ speedup: "linear=0.5x", link_speed: "50" },
  });
});

it("offers the op types with most time on the path", () => {
  const op = (op_type: string, path_ns: number, own_ns: number) => ({ op_type, path_ns, own_ns });
  const ops = [op("a", 1, 9), op("b", 2, 2), op("b", 2, 2), op("", 9, 9), op("c=d", 9, 9)];
  expect(opTypes(ops as unknown as Parameters<typeof opTypes>[0])).toEqual(["b", "a"]);
});

it("sorts by what is known to be saved, so that the profiler's time promises nothing", () => {
  expect(effectOf(undefined)).toBe(Number.NEGATIVE_INFINITY);
  const answer = { saving_ns: null, measured_step_ns: 50, predicted_step_ns: 5 };
  expect(effectOf(answer as Parameters<typeof effectOf>[0])).toBe(Number.NEGATIVE_INFINITY);
});

it("divides the wall clock time of a rank into parts that add up", () => {
  const rank = { busy_ns: 60, computing_ns: 30, exposed_communication_ns: 25 } as RanksRow;
  const none = { transfer: 0, waiting: 0 };
  const kernels = { ...none, computing: 30, communication: 25 };
  expect(partsOf(rank, 100)).toEqual({ ...kernels, copies: 5, idle: 40, rest: 0 });
  const older = partsOf({ ...rank, busy_ns: null }, 100);
  expect(older).toEqual({ ...kernels, copies: 0, idle: 0, rest: 45 });
  const split = { ...rank, exposed_waiting_ns: 20, exposed_transfer_ns: 5 };
  expect(partsOf(split, 100)).toMatchObject({ transfer: 5, waiting: 20, communication: 0 });
  expect(Object.values(partsOf(rank, 100)).reduce((sum, part) => sum + part)).toBe(100);
});
