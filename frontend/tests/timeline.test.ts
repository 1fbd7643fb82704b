import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  absolute,
  around,
  eventText,
  moments,
  moved,
  readEvent,
  readSelection,
  readSpan,
  selectionText,
  spanText,
  ticks,
  within,
  zoomed,
} from "../src/lib/timeline";
import { timelineOf } from "../src/table/timelineLink";
import {
  foldedAtFirst,
  layOut,
  rowAt,
  rowsBetween,
  shortTitle,
  valueText,
} from "../src/views/timeline/layout";
import { itemAt, PixelRow } from "../src/views/timeline/raster";
import { pathEnd, shortened } from "../src/views/timeline/scene";
import { type Placed, readTiles, shiftOf, type Tile } from "../src/views/timeline/tiles";

const ALL = { low: 0, high: 10_000 };

describe("windows", () => {
  it("stay within all of the time", () => {
    expect(within({ low: -50, high: 950 }, ALL)).toEqual({ low: 0, high: 1_000 });
    expect(moved({ low: 9_000, high: 10_000 }, 0.5, ALL)).toEqual({ low: 9_000, high: 10_000 });
    expect(zoomed({ low: 0, high: 10_000 }, 5, 0.5, ALL)).toEqual(ALL);
    expect(around(3_000, 500, ALL)).toEqual({ low: 2_500, high: 4_000 });
  });
  it("keep the time under the pointer when they are zoomed", () => {
    const { low, high } = zoomed({ low: 2_000, high: 4_000 }, 0.5, 0.25, ALL);
    expect(low + 0.25 * (high - low)).toBe(2_500);
    expect(high - low).toBe(1_000);
  });
  it("are read from the address as they were written, also at the end of 64 bits", () => {
    const span = { low: 123, high: 4_567 };
    for (const origin of [0n, 9_223_372_036_854_765_000n, -9_223_372_036_854_775_808n]) {
      expect(readSpan(spanText(span, origin), ALL, origin)).toEqual(span);
      const event = { lane: "gpu1.1.7.0", start: 77, row: 5 };
      expect(readEvent(eventText(event, origin), origin)).toEqual(event);
    }
    expect(absolute(1, 9_223_372_036_854_775_806n)).toBe("9223372036854775807");
    expect(readSpan("5-5", ALL)).toBeNull();
    expect(readSpan("a-b", ALL)).toBeNull();
    expect(readSpan("20000-30000", ALL)).toBeNull();
  });
});

describe("selections", () => {
  it("are read from the address as they were written", () => {
    const selection = { op: "A&B=1", kernel: "f<x, y>" };
    expect(readSelection(selectionText(selection))).toEqual(selection);
    expect(readSelection("nope=1")).toBeNull();
    expect(readSelection(undefined)).toBeNull();
  });
});

describe("a row of a table", () => {
  beforeAll(() => vi.stubGlobal("window", { location: { search: "" } }));
  afterAll(() => vi.unstubAllGlobals());
  const show = (row: object) => timelineOf(row)?.["timeline.show"];
  it("leads to its events by what it names", () => {
    expect(show({ op_id: "CONV_1", op_type: "conv", gpu_time_ns: 5 })).toBe("op=CONV_1");
    expect(show({ op_type: "conv" })).toBe("op_type=conv");
    expect(show({ group_name: "/ResNet/" })).toBe("group=%2FResNet%2F");
    expect(show({ kernel_long_name: "k<1>", kernel_name: "k" })).toBe("kernel=k%3C1%3E");
    expect(timelineOf({ rank: 1 })).toBeNull();
  });
  it("leads to its time if it has one", () => {
    expect(timelineOf({ start_time_ns: 1_000, stop_time_ns: 1_500 })?.range).toBe("1000-1500");
    expect(timelineOf({ op_id: "A", start_time_ns: 7, gpu_time_ns: 3 })?.range).toBe("7-10");
  });
});

describe("moments", () => {
  it("differ from their neighbors at any zoom, anywhere in a long run", () => {
    for (const low of [0, 7.3e6, 19_330_123_456, 3.6e12]) {
      for (let length = 100; length <= 1e13; length *= 3.7) {
        const marks = ticks({ low, high: low + length }, 8);
        const { text } = moments(marks);
        const texts = marks.map(text);
        expect(new Set(texts).size, texts.join(" ")).toBe(marks.length);
      }
    }
  });
  it("are counted from an origin where most of their digits are the same", () => {
    const { origin, text } = moments([18_400_050_000, 18_400_100_000, 18_400_150_000]);
    expect(origin).toBe("18.4000 s");
    expect(text(18_400_050_000)).toBe("+50 µs");
    expect(moments([0, 5e9, 1e10]).origin).toBeNull();
  });
});

describe("ticks", () => {
  it("are round numbers, and not too many", () => {
    expect(ticks({ low: 130, high: 1_020 }, 10)).toEqual([
      200, 300, 400, 500, 600, 700, 800, 900, 1_000,
    ]);
    expect(ticks({ low: 0, high: 1 }, 5)).toEqual([0, 1]);
  });
});

function tileOf(items: readonly (readonly number[])[]): Tile {
  const column = (index: number) => items.map((item) => item[index] ?? 0);
  return {
    start: Float64Array.from(column(0)),
    duration: Float64Array.from(column(1)),
    busy: Float64Array.from(column(2)),
    count: Int32Array.from(column(3)),
    label: Int32Array.from(column(4)),
    row: Int32Array.from(column(4)),
  };
}

function placedOf(tile: Tile, number = 0, bin = 1): Placed {
  const base = number * 512 * bin;
  return { tile, base, low: base, high: base + 512 * bin, bin };
}

const ignored = () => undefined;

describe("a row of pixels", () => {
  it("shows every item, however short, and the largest one of each pixel", () => {
    const tile = tileOf([
      [0, 0, 0, 1, 3],
      [100, 300, 300, 1, 4],
      [400, 1, 1, 1, 5],
      [401, 60, 60, 1, 6],
    ]);
    const row = new PixelRow(8);
    row.clear();
    row.add([placedOf(tile)], { low: 0, high: 512 }, 0.4, 99, ignored);
    expect(row.label[0]).toBe(3);
    expect(row.busy[0]).toBeCloseTo(0.4);
    expect([...row.label.slice(2, 6)]).toEqual([4, 4, 4, 4]);
    expect(row.label[6]).toBe(6);
    expect(row.label[7]).toBe(6);
  });
  it("is as busy as its runs say", () => {
    const row = new PixelRow(4);
    row.clear();
    row.add([placedOf(tileOf([[0, 256, 64, 9, 1]]))], { low: 0, high: 512 }, 0, 99, ignored);
    expect([...row.busy]).toEqual([0.25, 0.25, 0, 0]);
  });
  it("counts an event in several tiles once, and writes its name once", () => {
    const tiles = [
      placedOf(tileOf([[200, 700, 700, 1, 2]]), 0),
      placedOf(tileOf([[-312, 700, 700, 1, 2]]), 1),
    ];
    const names: number[][] = [];
    const row = new PixelRow(64);
    row.clear();
    row.add(tiles, { low: 0, high: 1_024 }, 0, 8, (...found) => names.push(found));
    expect(Math.max(...row.busy)).toBeLessThanOrEqual(1.0001);
    expect(names).toHaveLength(1);
    expect(names[0]?.[0]).toBe(2);
  });
});

describe("samples", () => {
  it("keep the highest of each pixel, show 0 and unknown differently, and stay in their tile", () => {
    const tile = tileOf([
      [0, 64, 64, 1, 9],
      [64, 1, 1, 1, 9],
      [65, 60, 60, 1, 9],
      [192, 64, 64, 1, 9],
      [400, 500, 500, 1, 9],
    ]);
    [50, 100, 10, 0, 70].forEach((value, index) => {
      tile.row[index] = value;
    });
    const row = new PixelRow(16);
    row.clear();
    row.addSamples([placedOf(tile)], { low: 0, high: 1_024 }, 100);
    expect([...row.busy.slice(0, 4)].map((share) => Math.round(share * 100))).toEqual([
      50, 100, 0, 0,
    ]);
    expect([...row.label]).toEqual([9, 9, -1, 9, -1, -1, 9, 9, -1, -1, -1, -1, -1, -1, -1, -1]);
    expect(row.busy[7]).toBeCloseTo(0.7);
  });
});

describe("the item at a time", () => {
  const placed = [
    placedOf(
      tileOf([
        [0, 5, 5, 1, 1],
        [10, 10, 10, 1, 2],
        [30, 0, 0, 1, 3],
      ]),
    ),
  ];
  it("is the one that holds it, or lies within the slack", () => {
    expect(itemAt(placed, 3, 0)?.index).toBe(0);
    expect(itemAt(placed, 7, 0)).toBeNull();
    expect(itemAt(placed, 15, 0)?.index).toBe(1);
    expect(itemAt(placed, 28, 3)?.index).toBe(2);
    expect(itemAt(placed, 40, 3)).toBeNull();
  });
});

describe("tiles", () => {
  it("are read by lane, and refused when they are cut off", () => {
    const head = new TextEncoder().encode('{"counts": [1, 0]}  ');
    const data = new Uint8Array(4 + head.length + 36);
    new DataView(data.buffer).setUint32(0, head.length, true);
    data.set(head, 4);
    new DataView(data.buffer).setFloat64(4 + head.length, 7, true);
    const [first, second] = readTiles(data.buffer, 2);
    expect(first?.start[0]).toBe(7);
    expect(second?.start.length).toBe(0);
    expect(() => readTiles(data.slice(0, -4).buffer, 2)).toThrow(RangeError);
    expect(() => readTiles(data.buffer, 3)).toThrow(RangeError);
  });
  it("have bins of at most a pixel", () => {
    expect(shiftOf({ low: 0, high: 1_000_000 }, 1_000)).toBe(9);
    expect(shiftOf({ low: 0, high: 10 }, 1_000)).toBe(0);
  });
});

describe("rows", () => {
  const lane = (key: string, group: string) => ({
    ...{ key, kind: "work", group, title: key, num_events: 1, busy_ns: 1, scale: null },
    is_in_steps: true,
  });
  it("have a heading for each group, and are found by their height", () => {
    const { rows, height } = layOut([lane("a", ""), lane("b", "G"), lane("c", "G")], new Set());
    expect(rows.map((row) => row.kind)).toEqual(["lane", "group", "lane", "lane"]);
    expect(rowAt(rows, 20)?.kind).toBe("group");
    expect(rowAt(rows, height + 1)).toBeNull();
    expect(rowsBetween(rows, 0, 19)).toHaveLength(2);
    expect(layOut([lane("b", "G"), lane("c", "G")], new Set(["G"])).rows).toHaveLength(1);
  });
  it("have steps first, then GPUs, the thread of the loop and the others, folded to one line", () => {
    const of = (kind: string, group: string, busy_ns = 1) => ({
      ...lane(`${kind} ${group}`, group),
      ...{ kind, busy_ns },
    });
    const lanes = [
      of("iterations", ""),
      of("advice", "Advice"),
      of("ops", "Process 1, thread 2 (pin)", 5),
      of("ops", "Process 1, thread 3 (python)", 900),
      of("idle", "GPU 0"),
      of("work", "GPU 0"),
    ];
    const { rows } = layOut(lanes, foldedAtFirst(lanes));
    expect(rows.map((row) => (row.kind === "group" ? shortTitle(row.title) : row.key))).toEqual([
      ...["Advice", "iterations ", "GPU 0", "idle GPU 0", "work GPU 0"],
      ...["python 3", "ops Process 1, thread 3 (python)", "pin 2"],
    ]);
    expect(rows.filter((row) => row.kind === "group").map((row) => row.lanes.length)).toEqual([
      1, 0, 0, 1,
    ]);
  });
  it("are higher for counters, whose values are text", () => {
    const scale = { unit: "bytes", step: 16, most: 2 ** 28 };
    const counter = { ...lane("m", "G"), kind: "counter", title: "Memory in use", scale };
    const { rows, height } = layOut([lane("a", "G"), counter, lane("b", "G")], new Set());
    expect(height).toBe(24 + 18 + 36 + 18);
    expect(rowAt(rows, 24 + 18 + 35)).toMatchObject({ key: "m", scale });
    expect(valueText(scale, scale.most)).toBe("4.29 GB");
    expect(valueText({ unit: "percent", step: 1, most: 10_000 }, 4_250)).toBe("42.5 %");
  });
  it("are quick for ten thousand lanes", () => {
    const lanes = Array.from({ length: 10_000 }, (_, index) => lane(`l${index}`, `G${index % 99}`));
    const { rows } = layOut(lanes, new Set());
    expect(rowsBetween(rows, 90_000, 90_600).length).toBeLessThan(40);
  });
});

describe("names in bars", () => {
  it("keep both ends", () => {
    expect(shortened("short", 10)).toBe("short");
    expect(shortened("a_very_long_kernel_name_128x64", 14)).toBe("a_very_lo…8x64");
    expect(shortened("abcdefghij", 3)).toBe("abc");
    expect(shortened("abc", 0)).toBe("");
    expect(pathEnd("/model/layers.5/mlp/down_proj", 16)).toBe("mlp/down_proj");
    expect(pathEnd("/model/layers.5", 4)).toBe("layers.5");
  });
});
