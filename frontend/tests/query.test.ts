import { describe, expect, it } from "vitest";
import {
  applyPatch,
  formatQuery,
  parseIndexRange,
  parseQuery,
  patchForView,
  viewKey,
  viewParams,
} from "../src/state/query";

describe("the query string", () => {
  it("comes back as it went in", () => {
    const search = "?profile=p1&view=ops&aggregation=2&op=CONV2D_1&ops.q=a+b%26c";
    expect(formatQuery(parseQuery(search))).toBe(search);
  });

  it("has what names the data first, the rest in order", () => {
    const query = new Map([
      ["ops.q", "x"],
      ["view", "ops"],
      ["aggregation", "1"],
      ["profile", "p"],
    ]);
    expect(formatQuery(query)).toBe("?profile=p&view=ops&aggregation=1&ops.q=x");
  });

  it("reads a row per op from links that named it like the scale of sums", () => {
    expect(formatQuery(parseQuery("?view=ops&per=op"))).toBe("?view=ops&rows=op");
    expect(formatQuery(parseQuery("?view=ops&per=total&rows=op"))).toBe(
      "?view=ops&per=total&rows=op",
    );
  });

  it("loses what is set to null or to nothing", () => {
    const query = applyPatch(parseQuery("?a=1&b=2&c=3"), { a: null, b: "", d: "4" });
    expect(formatQuery(query)).toBe("?c=3&d=4");
    expect(formatQuery(new Map())).toBe("");
  });

  it("keeps the data and drops the rest when the view changes", () => {
    const query = parseQuery("?profile=p&view=ops&aggregation=2&domain=d&op=X&ops.page=3");
    expect(formatQuery(applyPatch(query, patchForView(query, "iterations")))).toBe(
      "?profile=p&view=iterations&aggregation=2&domain=d",
    );
  });
});

describe("a range of iterations in the address", () => {
  it("is two numbers in order, or nothing", () => {
    expect(parseIndexRange("3-18")).toEqual([3, 18]);
    expect(parseIndexRange("18-3")).toBeNull();
    expect(parseIndexRange("3-")).toBeNull();
    expect(parseIndexRange(undefined)).toBeNull();
  });

  it("has apart what a view shows and what data it is of", () => {
    const query = parseQuery("?profile=p&aggregation=2&docs=ops&ops.q=conv&view=ops");
    expect(viewParams(query)).toEqual({ "ops.q": "conv" });
    expect(viewKey(query)).toBe(viewKey(parseQuery("?view=ops&profile=p&aggregation=2&op=A")));
    expect(viewKey(query)).not.toBe(viewKey(applyPatch(query, { aggregation: "3" })));
    expect(viewKey(parseQuery("?profile=p"))).toBe(
      viewKey(parseQuery("?profile=p&view=dashboard")),
    );
  });
});
