import { describe, expect, it } from "vitest";
import type { AggregationsRow, Job } from "../src/api/types";
import { pickJob } from "../src/state/jobs";
import { parseQuery } from "../src/state/query";
import {
  draftProblem,
  isChanged,
  readDraft,
  requestOf,
  stepped,
} from "../src/views/iterations/reaggregation";

const AGGREGATION = { iter_start: 0, iter_stop: 20, key_node: "CONV2D_1" } as AggregationsRow;

function draft(search: string) {
  return readDraft(parseQuery(search), AGGREGATION);
}

describe("the re-aggregation form", () => {
  it("starts from the aggregation that is shown", () => {
    expect(draft("")).toEqual({ start: 0, stop: 20, keyNode: "CONV2D_1", keyName: null });
    expect(isChanged(draft(""), AGGREGATION)).toBe(false);
  });

  it("keeps in the address what was typed", () => {
    expect(draft("?start=3&stop=18")).toMatchObject({ start: 3, stop: 18, keyNode: "CONV2D_1" });
    expect(isChanged(draft("?start=3"), AGGREGATION)).toBe(true);
    expect(isChanged(draft("?key_node=LINEAR_1"), AGGREGATION)).toBe(true);
  });

  it("says what is wrong before it is sent", () => {
    expect(draftProblem(draft("?start=3&stop=18"), AGGREGATION, 20)).toBeNull();
    expect(draftProblem(draft("?start=18&stop=3"), AGGREGATION, 20)).toMatch(/after the stop/);
    expect(draftProblem(draft("?stop=99"), AGGREGATION, 20)).toMatch(/last iteration .* is 20/);
  });

  it("leaves the range to the server when the key node is another", () => {
    expect(draftProblem(draft("?stop=99&key_node=LINEAR_1"), AGGREGATION, 20)).toBeNull();
  });

  it("sends the range and the key node", () => {
    expect(requestOf(draft("?start=3&stop=18"), AGGREGATION)).toEqual({
      iter_start: 3,
      iter_stop: 18,
      key_node: "CONV2D_1",
    });
  });

  it("sends another key node without the range that was not chosen for it", () => {
    const search = "?key_node=LINEAR_1&key_name=/model/linear";
    expect(draft(search)).toMatchObject({ keyNode: "LINEAR_1", keyName: "/model/linear" });
    expect(requestOf(draft(search), AGGREGATION)).toEqual({ key_node: "LINEAR_1" });
    expect(requestOf(draft(`${search}&stop=7`), AGGREGATION)).toEqual({
      iter_start: 0,
      iter_stop: 7,
      key_node: "LINEAR_1",
    });
  });

  it("keeps the wheel inside of the profile", () => {
    expect(stepped(0, -1, 20)).toBe(0);
    expect(stepped(20, 1, 20)).toBe(20);
    expect(stepped(19, 1, 20)).toBe(20);
    expect(stepped(20, 1, null)).toBe(21);
  });
});

describe("the job that is reported on", () => {
  const job = (id: string, state: Job["state"]) => ({ id, state }) as Job;

  it("is the one that runs", () => {
    expect(pickJob([job("a", "done"), job("b", "running")], "a")?.id).toBe("b");
  });

  it("is the one that this browser waits for, also when it has ended", () => {
    expect(pickJob([job("a", "done"), job("b", "failed")], "b")?.id).toBe("b");
  });

  it("is none when no job waits", () => {
    expect(pickJob([job("a", "done")], null)).toBeNull();
  });
});
