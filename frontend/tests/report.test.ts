import { describe, expect, it } from "vitest";
import type { ListPage } from "../src/api/lists";
import type { IterationFigure } from "../src/charts/iterationFigure";
import { rangesText } from "../src/lib/text";
import { exported } from "../src/report/exports";
import type { LocalizedData, ReportData, TableInfo } from "../src/report/format";
import { decodeRows, distinctValues, filterRows, type Row, sortRows } from "../src/report/rows";
import { cutFigure, ReportSource } from "../src/report/source";
import { unpackText } from "../src/report/unpack";

type Column = TableInfo["columns"][number];

function column(name: string, kind: Column["kind"], is_searched = false): Column {
  const is_text = kind === "text" || kind === "identifier";
  return { name, kind, is_real: false, is_text, is_searched, is_sentence: false };
}

const INFO: TableInfo = {
  name: "things",
  ordering: "-time_ns",
  columns: [
    column("name", "text", true),
    column("time_ns", "number"),
    column("uses_tc", "boolean"),
    column("start_ns", "number"),
  ],
};
const LAUNCHES_INFO = { ordering: "", columns: [column("op_id", "identifier", true)] };
const STRINGS = ["conv", "Linear", "50%_off"];
const TABLE = {
  count: 4,
  unknown: {},
  columns: [[0, 1, 2, null], [30, 20, 10, null], [1, 0, null, 1], { steps: [100, 5, -2, 7] }],
} as const;
const ROWS = decodeRows(TABLE, INFO, { strings: STRINGS, sentences: { conv: "no sentence" } });

const names = (rows: readonly Row[]) => rows.map((row) => row.name);
const filtered = (query: string) =>
  names(filterRows(ROWS, new Map(new URLSearchParams(query)), INFO));

describe("rows of a report", () => {
  it("are those that were encoded", () => {
    expect(ROWS[0]).toEqual({ name: "conv", time_ns: 30, uses_tc: true, start_ns: 100 });
    expect(ROWS[3]).toEqual({ name: null, time_ns: null, uses_tc: true, start_ns: 110 });
  });

  it("say sentences in the language of the reader", () => {
    const info = { ...INFO, columns: INFO.columns.map((one) => ({ ...one, is_sentence: true })) };
    const words = { strings: STRINGS, sentences: { Linear: "线性" } };
    expect(names(decodeRows(TABLE, info, words))).toEqual(["conv", "线性", "50%_off", null]);
  });

  it.each([
    ["search=LIN", ["Linear"]],
    ["search=50%25_", ["50%_off"]],
    ["search=30", []],
    ["time_ns__gte=20", ["conv", "Linear"]],
    ["time_ns__lte=20", ["Linear", "50%_off"]],
    ["uses_tc=1", ["conv", null]],
    ["uses_tc=0", ["Linear"]],
    ["uses_tc=true&time_ns__gte=1", ["conv"]],
    ["name__icontains=CON", ["conv"]],
    ["name__startswith=L", ["Linear"]],
    ["name__in=conv,Linear", ["conv", "Linear"]],
    ["page=2&page_size=10&ordering=name&domain=x", ["conv", "Linear", "50%_off", null]],
  ])("are left by %s", (query, left) => {
    expect(filtered(query)).toEqual(left);
  });

  it.each([
    ["time_ns", ["50%_off", "Linear", "conv", null]],
    ["-time_ns", ["conv", "Linear", "50%_off", null]],
    ["name", ["50%_off", "Linear", "conv", null]],
    ["uses_tc,-name", ["Linear", "conv", null, "50%_off"]],
    ["", ["conv", "Linear", "50%_off", null]],
  ])("are sorted by %s, unknown ones last", (ordering, sorted) => {
    expect(names(sortRows(ROWS, ordering))).toEqual(sorted);
  });

  it("list their distinct values, commonest first", () => {
    expect(distinctValues(ROWS, "uses_tc")[0]).toEqual({ value: true, count: 2 });
  });
});

const FIGURE = {
  data: [
    {
      name: "TC",
      x: [0, 1, 2.5],
      y: [5, 6, 7],
      width: [0.8, 0.8, 1.6],
      customdata: ["a", "b", "c"],
    },
  ],
  layout: {
    title: "t",
    meta: {
      unit: "ms",
      unit_ns: 1e6,
      bucket_size: 2,
      first: 0,
      last: 3,
      bars: [
        { first: 0, last: 0, kind: "before", duration_ns: 1 },
        { first: 1, last: 1, kind: "iteration", duration_ns: 2 },
        { first: 2, last: 3, kind: "iteration", duration_ns: 3 },
      ],
    },
  },
} as unknown as IterationFigure;

describe("a part of the iteration figure", () => {
  it("has the bars that reach into the range", () => {
    const cut = cutFigure(FIGURE, 1, 2);
    expect(cut.layout.meta.bars.map((bar) => bar.first)).toEqual([1, 2]);
    expect([cut.layout.meta.first, cut.layout.meta.last]).toEqual([1, 3]);
    expect(cut.data[0]).toMatchObject({
      x: [1, 2.5],
      y: [6, 7],
      width: [0.8, 1.6],
      customdata: ["b", "c"],
    });
    expect(cut.layout.title).toBe("t");
  });

  it("is the whole one without a range, and nothing outside of it", () => {
    expect(cutFigure(FIGURE, null, null)).toBe(FIGURE);
    expect(cutFigure(FIGURE, 9, 12).data).toEqual([]);
  });
});

const OP_TABLE = { ...TABLE, count: 9 };
const DATA = {
  format: 1,
  rows: 2,
  tables: {
    ops: INFO,
    "op-details": INFO,
    "ops/{op_id}/kernels": INFO,
    "iterations/{iteration}/ops": INFO,
    "iterations/{iteration}/kernels": LAUNCHES_INFO,
    "iterations/{iteration}/ops/{op_id}/kernels": LAUNCHES_INFO,
  },
  domains: {
    d: {
      tables: { ops: OP_TABLE },
      op_kernels: { "a/b": TABLE },
      iterations: { "4": "element-4" },
    },
  },
  strings: STRINGS,
  sentences: {},
} as unknown as ReportData;
const LOCALIZED = {
  profile: { id: "p", name: "run" },
  aggregation: { id: 7, iter_start: 3, iter_stop: 9 },
  domains: {
    d: {
      objects: { "kernel-summary": { all: 1 } },
      figures: {
        "gpus/dark": "gpus",
        "iteration-summary/dark/all": FIGURE,
        "iteration-summary/dark/all/fine": FIGURE,
      },
    },
  },
} as unknown as LocalizedData;
const LAUNCHES = { count: 3, unknown: {}, columns: [[0, 1, 0]] };
const source = new ReportSource(DATA, LOCALIZED, async (id) => {
  expect(id).toBe("element-4");
  return { ops: TABLE, kernels: LAUNCHES };
});
const A = "/api/v1/profiles/p/aggregations/7/";
const list = async (address: string) => (await source.answer(`${A}${address}`)) as ListPage<Row>;

describe("a report answers", () => {
  it.each([
    ["/api/v1/profiles/p/", LOCALIZED.profile],
    [`${A}kernel-summary/?domain=d`, { all: 1 }],
    [`${A}figures/gpus/?domain=d&theme=dark`, "gpus"],
  ])("%s", async (url, answer) => {
    expect(await source.answer(url)).toEqual(answer);
  });

  it("lists of one profile, of one aggregation and of no job", async () => {
    const results = async (url: string) => ((await source.answer(url)) as ListPage<Row>).results;
    expect(await results("/api/v1/profiles/")).toEqual([LOCALIZED.profile]);
    expect(await results("/api/v1/profiles/p/aggregations/?page_size=200")).toEqual([
      LOCALIZED.aggregation,
    ]);
    expect(await results("/api/v1/jobs/?profile=p")).toEqual([]);
  });

  it("pages, and says how much of the table it holds", async () => {
    const page = await list("ops/?domain=d&page=2&page_size=3&ordering=time_ns");
    expect(names(page.results)).toEqual([null]);
    expect(page).toMatchObject({ count: 4, page: 2, cut: { held: 4, count: 9 } });
  });

  it("the kernels of an op whose id holds a slash", async () => {
    expect((await list("ops/a%2Fb/kernels/?domain=d")).count).toBe(4);
    expect((await list("ops/zzz/kernels/?domain=d")).unknown?.["*"]).toMatch(/not contain/);
  });

  it("an iteration out of its own element, no more rows than of any table", async () => {
    const launches = await list("iterations/4/kernels/?domain=d");
    expect(launches.results.map((row) => row.op_id)).toEqual(["conv", "Linear"]);
    expect(launches.cut).toEqual({ held: 2, count: 3 });
    const ofOp = await list("iterations/4/ops/conv/kernels/?domain=d");
    expect(ofOp).toMatchObject({ count: 2, cut: { held: 2, count: 2 } });
  });

  it("for an iteration that was left out with the reason, for one outside without", async () => {
    expect((await list("iterations/5/ops/?domain=d")).unknown?.["*"]).toMatch(/1 iterations: 4/);
    expect((await list("iterations/2/ops/?domain=d")).unknown).toEqual({});
  });

  it("with an error to a column that there is not", async () => {
    for (const query of ["nope__gte=1", "time_ns__near=1", "nope=1", "ordering=-nope"]) {
      await expect(list(`ops/?domain=d&${query}`)).rejects.toMatchObject({ status: 400 });
    }
  });

  it("with an error what it does not contain", async () => {
    for (const address of ["nope/?domain=d", "ops/?domain=other", "figures/nope/?domain=d"]) {
      await expect(list(address)).rejects.toMatchObject({ code: "NOT_IN_REPORT" });
    }
  });
});

describe("an export of a report", () => {
  const HEADER = {
    profile: "../my run",
    table: "ops",
    aggregation_id: 7,
    domain: "d",
    columns: ["name", "time_ns", "uses_tc"],
  };

  it("is CSV that no spreadsheet runs", () => {
    const rows = [
      { name: '=1+1,"x"', time_ns: -3, uses_tc: true },
      { name: "a b", time_ns: null, uses_tc: false },
    ];
    expect(exported("csv", HEADER, rows, new Set())).toMatchObject({
      name: "my_run_ops_aggregation7.csv",
      text: 'name,time_ns,uses_tc\r\n"\'=1+1,""x""",-3,yes\r\na b,,no\r\n',
    });
  });

  it("writes numbers with a fraction as the server does", () => {
    const header = { ...HEADER, columns: ["share", "time_ns"] };
    const shares = [0, -5, 0.1, 0.0001, 1e-5, 1.5e-7, 1e-10, 123456789012345680, 1e16, 1e22, null];
    const rows = shares.map((share) => ({ share, time_ns: 0 }));
    const { text } = exported("csv", header, rows, new Set(["share"]));
    expect(text.split("\r\n").slice(1, -1)).toEqual([
      ...["0.0,0", "-5.0,0", "0.1,0", "0.0001,0", "1e-05,0", "1.5e-07,0", "1e-10,0"],
      ...["1.2345678901234568e+17,0", "1e+16,0", "1e+22,0", ",0"],
    ]);
  });

  it("holds the rows that the filters leave", async () => {
    const file = (await source.answer(
      `${A}ops/export/?domain=d&format=json&uses_tc=1&ordering=time_ns`,
    )) as { name: string; text: string };
    expect(file.name).toBe("run_things_aggregation7.json");
    expect(JSON.parse(file.text)).toMatchObject({ domain: "d", results: [{ name: "conv" }, {}] });
  });
});

describe("the parts of a report", () => {
  it("name ranges shortly", () => {
    expect(rangesText([7, 1, 0, 2, 9, 10])).toBe("0–2, 7, 9–10");
  });

  it("are unpacked", async () => {
    const bytes = new Response(
      new Blob(['{"a":"ä"}']).stream().pipeThrough(new CompressionStream("gzip")),
    );
    const packed = btoa(String.fromCharCode(...new Uint8Array(await bytes.arrayBuffer())));
    expect(await unpackText(packed)).toEqual({ a: "ä" });
  });
});
