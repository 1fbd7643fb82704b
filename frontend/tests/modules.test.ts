import { describe, expect, it } from "vitest";
import { depthIn, ownName, pickModules } from "../src/views/dashboard/modules";

function module(name: string, gpu_time_ns: number) {
  return { name, gpu_time_ns };
}

describe("the modules of the dashboard", () => {
  it("are a tree without those that wrap all of it", () => {
    const rows = [
      module("/", 1_000),
      module("/Net/", 995),
      module("/Net/head/", 400),
      module("/Net/body/", 500),
      module("/Net/body/b1/", 300),
      module("/Net/body/b2/", 100),
      module("/Net/idle/", 0),
    ];
    const found = pickModules(rows).map((row) => row.name);
    expect(found).toEqual(["/Net/body/", "/Net/body/b1/", "/Net/body/b2/", "/Net/head/"]);
    expect(found.map((name) => depthIn(name, found))).toEqual([0, 1, 1, 0]);
    expect(found.map(ownName)).toEqual(["body", "b1", "b2", "head"]);
  });

  it("are the ten with the most time", () => {
    const rows = Array.from({ length: 20 }, (_, place) => module(`/m${place}/`, 100 - place));
    expect(pickModules(rows)).toHaveLength(10);
    // Names that begin alike are no parts of each other.
    expect(depthIn("/m11/", ["/m1/", "/m11/"])).toBe(0);
  });
});
