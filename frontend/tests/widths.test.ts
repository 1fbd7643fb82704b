import { describe, expect, it } from "vitest";
import { formatWidths, parseWidths, withinLimits } from "../src/table/useWidths";

describe("the widths of columns", () => {
  it("are read as they were written", () => {
    const widths = parseWidths("op_name:320,gpu_time_ns:140");
    expect([...widths]).toEqual([
      ["op_name", 320],
      ["gpu_time_ns", 140],
    ]);
    expect(formatWidths(widths)).toBe("op_name:320,gpu_time_ns:140");
    expect(formatWidths(new Map())).toBeNull();
  });

  it("leave out what is no width, and stay within limits", () => {
    expect([...parseWidths("a:b,:5,c,d:-1,e:1,f:99999")]).toEqual([
      ["e", 48],
      ["f", 2000],
    ]);
    expect(parseWidths(null).size).toBe(0);
    expect(withinLimits(100.6)).toBe(101);
  });
});
