import { describe, expect, it } from "vitest";
import { boxes, flameTree, hottestPath, pathTo } from "../src/lib/flame";

const row = (name: string, value: number | null) => ({ name, label: name, value });
const ROWS = [
  row("/", 100),
  row("/a/", 60),
  row("/a/x/", 50),
  row("/b/", 30),
  ...Array.from({ length: 20 }, (_, place) => row(`/c${place}/`, 0.1)),
];

describe("the icicle of modules", () => {
  it("nests groups by their paths, the heaviest first", () => {
    const [root] = flameTree(ROWS);
    expect(root?.children.slice(0, 2).map(({ name }) => name)).toEqual(["/a/", "/b/"]);
    expect(hottestPath(flameTree(ROWS))).toEqual(["/", "/a/", "/a/x/"]);
    expect(pathTo(flameTree(ROWS), "/a/x/").map(({ name }) => name)).toEqual(["/", "/a/", "/a/x/"]);
  });

  it("keeps what is narrower than a pixel in a box of others, and parts within their parent", () => {
    const found = boxes(flameTree(ROWS), 400);
    const others = found.find(({ merged }) => merged > 0);
    expect(others).toMatchObject({ merged: 20, name: "/", level: 1 });
    expect(others?.value).toBeCloseTo(2);
    for (const parent of found.filter(({ merged }) => merged === 0)) {
      const parts = found.filter(
        ({ name, level, merged }) =>
          level === parent.level + 1 &&
          (merged === 0 ? name.startsWith(parent.name) : name === parent.name),
      );
      expect(parts.reduce((sum, { width }) => sum + width, 0)).toBeLessThanOrEqual(
        parent.width + 1,
      );
    }
  });

  it("shows the own time of a group beside its parts", () => {
    const own = boxes(flameTree(ROWS), 400).filter(({ merged }) => merged < 0);
    expect(own.map(({ name, value }) => [name, Math.round(value ?? 0)])).toEqual([
      ["/a/", 10],
      ["/", 8],
    ]);
  });

  it("gives parts room where the rest of their parent is below zero", () => {
    const found = boxes(flameTree([row("/", 5), row("/a/", 10), row("/b/", -5)]), 100);
    expect(found.map(({ name, width, value }) => [name, width, value])).toEqual([
      ["/", 100, 5],
      ["/a/", 100, 10],
    ]);
  });

  it("has no boxes where nothing is known", () => {
    expect(boxes(flameTree([row("/", null)]), 100)).toEqual([]);
  });
});
