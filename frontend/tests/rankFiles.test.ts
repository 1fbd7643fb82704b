import { describe, expect, it } from "vitest";
import { asChosen, rankInName, rankMistake, wantedRanks } from "../src/state/rankFiles";

const files = (...names: string[]) => names.map((name) => new File(["x"], name));

describe("rank files", () => {
  it("reads the rank of a name as the server does", () => {
    expect(rankInName("rank12.sqlite")).toBe(12);
    expect(rankInName("resnet_rank-3.sqlite")).toBe(3);
    expect(rankInName("RANK_07.json.gz")).toBe(7);
    expect(rankInName("frank3.sqlite")).toBeNull();
    expect(rankInName("run3.sqlite")).toBeNull();
  });

  it("puts files in the order of their numbers, with the ranks of their names", () => {
    const chosen = asChosen(files("rank10.sqlite", "rank2.sqlite"));
    expect(chosen.map((item) => [item.file.name, item.rank])).toEqual([
      ["rank2.sqlite", "2"],
      ["rank10.sqlite", "10"],
    ]);
  });

  it("finds no rank where a name has none, or two have the same", () => {
    for (const names of [
      ["rank0.sqlite", "other.sqlite"],
      ["a_rank0.sqlite", "b_rank0.sqlite"],
    ]) {
      expect(asChosen(files(...names)).map((item) => item.rank)).toEqual(["", ""]);
    }
  });

  it("asks for ranks only where other ones were typed", () => {
    const chosen = asChosen(files("rank0.sqlite", "rank1.sqlite"));
    expect(wantedRanks(chosen)).toBeNull();
    const swapped = chosen.map((item, at) => ({ ...item, rank: String(1 - at) }));
    expect(wantedRanks(swapped)).toEqual([1, 0]);
    expect(wantedRanks(chosen.map((item) => ({ ...item, rank: "" })))).toBeNull();
  });

  it("finds mistakes in what was typed", () => {
    const [a, b] = asChosen(files("a.sqlite", "b.sqlite"));
    if (a === undefined || b === undefined) throw new Error("two files");
    const typed = (first: string, second: string) =>
      rankMistake([
        { ...a, rank: first },
        { ...b, rank: second },
      ]);
    expect(typed("", "")).toBeNull();
    expect(typed("0", "1")).toBeNull();
    expect(typed("0", "")).toBe("missing");
    expect(typed("1", "01")).toBe("twice");
    expect(typed("-1", "0")).toBe("not a number");
  });
});
