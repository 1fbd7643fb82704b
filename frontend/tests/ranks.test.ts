import { describe, expect, it } from "vitest";
import type { RankIterationsRow, RanksRow } from "../src/api/types";
import { heatMap } from "../src/views/ranks/heat";
import { rankVerdict } from "../src/views/ranks/verdict";

function rank(number: number, kept: number | null, last: number, count = 86): RanksRow {
  return {
    rank: number,
    kept_waiting_ns: kept,
    times_last: last,
    collective_count: count,
  } as RanksRow;
}

describe("the verdict on the ranks", () => {
  it("says so when they take turns", () => {
    const even = rankVerdict([rank(0, 50e6, 33), rank(1, 40e6, 33)]);
    expect(even.late).toBeNull();
    expect(even.sentence).toBe("No straggler: no rank is last in most of the 86 collectives (33).");
    expect(rankVerdict([rank(0, 5e6, 28, 74), rank(1, 4e6, 31, 72)]).sentence).toBe(
      "No straggler: no rank is last in most of the 72 to 74 collectives (28 to 31).",
    );
  });

  it("names a rank and how late it is", () => {
    const verdict = rankVerdict([rank(0, 0, 0), rank(1, 120e6, 40), rank(2, 30e6, 12)]);
    expect(verdict.late).toBe(1);
    expect(verdict.sentence).toBe(
      "Rank 1 is late: last in 40 of 86 collectives, by 1.500 ms on average; it causes 80.0 % of all waiting.",
    );
  });

  it("is that of the replay, which says what waiting costs the step", () => {
    const uneven = [rank(0, 20e6, 21, 36), rank(1, 60e6, 15, 36)];
    expect(rankVerdict(uneven).late).toBe(1);
    const none = { slow_rank: null, slowdown: 1.05, verdict: "No rank makes the step slow" };
    expect(rankVerdict(uneven, none)).toMatchObject({
      late: null,
      sentence:
        "No straggler: rank 1 causes 75.0 % of all waiting, but with all ranks at the median the step would be only 4.8 % shorter.",
    });
    const slow = { slow_rank: 1, slowdown: 1.4, verdict: "Rank 1 is slow" };
    expect(rankVerdict(uneven, slow).sentence).toBe("Rank 1 is slow.");
    expect(rankVerdict([rank(0, 50e6, 33), rank(1, 40e6, 33)], slow)).toMatchObject({
      late: 1,
      sentence: "Rank 1 is slow.",
    });
  });

  it("does not guess where no collectives were matched", () => {
    expect(rankVerdict([rank(0, null, 0), rank(1, null, 0)]).sentence).toMatch(/is unknown/);
    expect(rankVerdict([]).late).toBeNull();
  });
});

describe("the heat map of the ranks", () => {
  const row = (iteration: number, of: number, kept: number | null) =>
    ({ iteration_index: iteration, rank: of, kept_waiting_ns: kept }) as RankIterationsRow;

  it("has a cell for each rank and iteration", () => {
    const map = heatMap([row(2, 1, 7), row(2, 0, 0), row(3, 1, null)]);
    expect(map).toMatchObject({ ranks: [0, 1], columns: 2, first: 2, last: 3, largest: 7 });
    expect(map?.cells.map((cell) => [cell.rank, cell.column, cell.value])).toEqual([
      [1, 0, 7],
      [0, 0, 0],
      [1, 1, null],
    ]);
    expect(heatMap([])).toBeNull();
  });

  it("shows the longest of several iterations in a cell", () => {
    const map = heatMap(Array.from({ length: 1000 }, (_, index) => row(index, 0, index)));
    expect(map?.columns).toBeLessThanOrEqual(240);
    expect(map?.cells[0]).toMatchObject({ first: 0, last: 4, value: 4 });
    expect(map?.cells.at(-1)).toMatchObject({ last: 999, value: 999 });
  });
});
