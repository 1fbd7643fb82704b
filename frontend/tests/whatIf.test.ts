import { expect, it } from "vitest";
import type { RanksRow, WhatIfChange } from "../src/api/types";
import {
  aloneOf,
  effectOf,
  isChosen,
  requestOf,
  rowsOf,
  UNCHANGED,
  withRow,
} from "../src/views/critical/scenario";
import { partsOf } from "../src/views/ranks/RankBars";

const change = (name: string, takes: string, choices: readonly string[] = []): WhatIfChange => ({
  ...{ name, takes, choices, label: name, meaning: "", unit: "", is_bound: false },
});
const ROWS = rowsOf(
  [
    change("no_sync", "op"),
    change("link_speed", "number"),
    change("rank_as_median", "rank", ["0", "1"]),
  ],
  [{ name: "conv2d", ownNs: 1, pathNs: 1 }],
  (rank) => `Rank ${rank}`,
);
const [SYNC, , RANK, CONV] = ROWS;

it("has a row for each change that needs no value, each rank and each op type", () => {
  expect(ROWS.map((row) => row.label)).toEqual(["no_sync", "Rank 0", "Rank 1", "conv2d"]);
});

it("combines chosen rows, but a rank goes alone", () => {
  if (SYNC === undefined || RANK === undefined || CONV === undefined) throw new Error("no rows");
  const both = withRow(CONV, true, withRow(SYNC, true, UNCHANGED, "rank_as_median"), "x");
  expect(requestOf(both)).toEqual({ no_sync: "1", speedup: "conv2d=2.0000x" });
  const rank = withRow(RANK, true, both, "rank_as_median");
  expect(requestOf(rank)).toEqual({ rank_as_median: "1" });
  expect(isChosen(SYNC, rank)).toBe(false);
  expect(requestOf(withRow(SYNC, true, rank, "rank_as_median"))).toEqual({ no_sync: "1" });
  expect(requestOf(withRow(CONV, false, both, "rank_as_median"))).toEqual({ no_sync: "1" });
  expect(requestOf(aloneOf(CONV, both))).toEqual({ speedup: "conv2d=2.0000x" });
});

it("sorts by what is known to be saved, so that the profiler's time promises nothing", () => {
  expect(effectOf(undefined)).toBe(Number.NEGATIVE_INFINITY);
  const answer = { saving_ns: null, measured_step_ns: 50, predicted_step_ns: 5 };
  expect(effectOf(answer as Parameters<typeof effectOf>[0])).toBe(Number.NEGATIVE_INFINITY);
});

it("divides the wall clock time of a rank into parts that add up", () => {
  const rank = {
    computing_ns: 30,
    exposed_communication_ns: 25,
    waiting_ns: 40,
  } as unknown as RanksRow;
  const parts = partsOf(rank, 100);
  expect(parts).toEqual({ computing: 30, communication: 0, waiting: 25, idle: 45 });
  expect(Object.values(parts).reduce((sum, part) => sum + part)).toBe(100);
});
