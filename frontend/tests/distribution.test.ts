import { describe, expect, it } from "vitest";
import { quantile, spans } from "../src/lib/distribution";

describe("distribution of many iterations", () => {
  it("keeps each iteration while there is room", () => {
    const found = spans([3, 4, 5], [10, 30, 20], 3);
    expect(found.map(({ first, last, most }) => [first, last, most])).toEqual([
      [3, 3, 10],
      [4, 4, 30],
      [5, 5, 20],
    ]);
  });

  it("keeps the largest value of those that share a mark", () => {
    const values = Array.from({ length: 1001 }, (_, place) => (place === 700 ? 99 : 1));
    const index = values.map((_, place) => place);
    const found = spans(index, values, 200);
    expect(found.length).toBeLessThanOrEqual(200);
    expect(found.at(-1)?.last).toBe(1000);
    expect(found.filter(({ most }) => most === 99)).toHaveLength(1);
    expect(found.every(({ median }) => median === 1)).toBe(true);
  });

  it("interpolates between two values", () => {
    expect(quantile([1, 2, 3, 4], 0.5)).toBe(2.5);
    expect(quantile([7], 0.9)).toBe(7);
    expect(quantile([], 0.5)).toBe(0);
  });
});
