import { describe, expect, it } from "vitest";
import {
  countOf,
  durationRange,
  exactNs,
  formatDuration,
  formatInt,
  formatPct,
  formatSeconds,
  formatTimeIn,
} from "../src/lib/units";

describe("durations", () => {
  it.each([
    [0, "0", "ns"],
    [999, "999", "ns"],
    [1_000, "1.000", "µs"],
    [504_800, "504.8", "µs"],
    [63_104_321, "63.10", "ms"],
    [999_999_999, "1,000.0", "ms"],
    [24_610_000_000, "24.61", "s"],
    [119_000_000_000, "119.0", "s"],
    [189_000_000_000, "3.150", "min"],
  ])("shows %i ns as %s %s", (ns, value, unit) => {
    expect(formatDuration(ns)).toEqual({ value, unit });
  });

  it("shows a range in the unit of its end", () => {
    expect(durationRange(47_632_084, 59_847_170)).toBe("47.63–59.85 ms");
    expect(durationRange(900, 1_100)).toBe("0.900–1.100 µs");
  });

  it("keeps every ns of a time in µs and every µs of a time in ms", () => {
    expect(formatTimeIn(1_234_567, "µs")).toBe("1,234.567");
    expect(formatTimeIn(1_234_567, "ms")).toBe("1.235");
    expect(exactNs(258_612_308)).toBe("258,612,308 ns");
  });

  it("says seconds as people do", () => {
    expect(formatSeconds(7.6)).toBe("8 s");
    expect(formatSeconds(125)).toBe("2 min 5 s");
  });
});

describe("percentages", () => {
  it("never rounds something to nothing, nor nearly all to all", () => {
    expect(formatPct(0)).toBe("0.0");
    expect(formatPct(0.01)).toBe("<0.1");
    expect(formatPct(99.97)).toBe(">99.9");
    expect(formatPct(100)).toBe("100.0");
    expect(formatPct(68.14)).toBe("68.1");
  });
});

describe("counts", () => {
  it("separates thousands and minds the singular", () => {
    expect(formatInt(17_129)).toBe("17,129");
    expect(countOf(1, ["op", "ops"])).toBe("1 op");
    expect(countOf(1_204, ["op", "ops"])).toBe("1,204 ops");
  });
});
