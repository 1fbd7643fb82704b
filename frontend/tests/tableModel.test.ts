import { describe, expect, it } from "vitest";
import { applyPatch, formatQuery, parseQuery } from "../src/state/query";
import {
  type ColumnModel,
  chips,
  filterParams,
  fromApiNumber,
  listParams,
  nextSort,
  pageCount,
  readTableState,
  sortDirection,
  type TableState,
  tablePatch,
  toApiNumber,
  withFilter,
  withoutFilters,
} from "../src/table/model";

const DEFAULTS = { sort: "-gpu_time_ns", pageSize: 50 };
const NAME: ColumnModel = { key: "op_name", title: "Op name", kind: "text" };
const TIME: ColumnModel = { key: "gpu_time_ns", title: "GPU time", kind: "number", unit: "ms" };
const FLAG: ColumnModel = { key: "using_tc", title: "Using TC", kind: "boolean" };
const TYPE: ColumnModel = { key: "op_type", title: "Op type", kind: "choice" };
const COLUMNS = [NAME, TIME, FLAG, TYPE];

function read(search: string): TableState {
  return readTableState(parseQuery(search), "ops", DEFAULTS);
}

describe("the state of a table in the address", () => {
  it("is the default where the address says nothing", () => {
    expect(read("")).toEqual({
      page: 1,
      pageSize: 50,
      sort: "-gpu_time_ns",
      search: "",
      filters: {},
    });
  });

  it("comes back as it was written", () => {
    const state: TableState = {
      page: 3,
      pageSize: 25,
      sort: "op_name",
      search: "layer2",
      filters: { gpu_time_ns__gte: "1000000", using_tc: "0" },
    };
    const query = applyPatch(new Map(), tablePatch("ops", read(""), state, DEFAULTS));
    expect(read(formatQuery(query))).toEqual(state);
  });

  it("takes a removed filter out of the address", () => {
    const before = read("?ops.f.using_tc=1&kernels.f.uses_tc=1");
    const patch = tablePatch("ops", before, withFilter(before, "using_tc", ""), DEFAULTS);
    const query = applyPatch(parseQuery("?ops.f.using_tc=1&kernels.f.uses_tc=1"), patch);
    expect(formatQuery(query)).toBe("?kernels.f.uses_tc=1");
  });

  it("ignores numbers that no page can have", () => {
    expect(read("?ops.page=0&ops.size=33").page).toBe(1);
    expect(read("?ops.page=-2").page).toBe(1);
    expect(read("?ops.page=x").page).toBe(1);
    expect(read("?ops.size=33").pageSize).toBe(50);
    expect(read("?ops.size=100").pageSize).toBe(100);
  });
});

describe("sorting", () => {
  it("starts with the largest for numbers and flags, with A for text", () => {
    expect(nextSort("op_name", TIME)).toBe("-gpu_time_ns");
    expect(nextSort("op_name", FLAG)).toBe("-using_tc");
    expect(nextSort("-gpu_time_ns", NAME)).toBe("op_name");
    expect(nextSort("-gpu_time_ns", TYPE)).toBe("op_type");
  });

  it("turns round on the next click", () => {
    expect(nextSort("-gpu_time_ns", TIME)).toBe("gpu_time_ns");
    expect(nextSort("gpu_time_ns", TIME)).toBe("-gpu_time_ns");
  });

  it("names the direction for the header", () => {
    expect(sortDirection("-gpu_time_ns", "gpu_time_ns")).toBe("descending");
    expect(sortDirection("op_name", "op_name")).toBe("ascending");
    expect(sortDirection("op_name", "gpu_time_ns")).toBeNull();
  });
});

describe("filters", () => {
  it("go back to the first page", () => {
    expect(withFilter(read("?ops.page=4"), "using_tc", "1")).toMatchObject({
      page: 1,
      filters: { using_tc: "1" },
    });
    expect(withoutFilters(read("?ops.page=4&ops.q=a&ops.f.using_tc=1"))).toMatchObject({
      page: 1,
      search: "",
      filters: {},
    });
  });

  it("are typed in the unit of the column and sent in ns", () => {
    expect(toApiNumber("1.5", { unit: "ms" })).toBe("1500000");
    expect(toApiNumber("1,000")).toBe("1000");
    expect(toApiNumber("abc", { unit: "ms" })).toBeNull();
    expect(toApiNumber("", { unit: "ms" })).toBeNull();
    expect(fromApiNumber("1500000", { unit: "ms" })).toBe("1.5");
  });

  it("of a sum are typed per step and sent in total", () => {
    const perStep = { unit: "ms", factor: 18 } as const;
    expect(toApiNumber("0.3", perStep)).toBe("5400000");
    expect(fromApiNumber("5400000", perStep)).toBe("0.3");
    expect(fromApiNumber("36", { factor: 18 })).toBe("2");
  });

  it("are shown in words", () => {
    const state = read(
      "?ops.q=conv&ops.f.gpu_time_ns__gte=1000000&ops.f.using_tc=0&ops.f.op_type__in=conv2d,linear&ops.f.op_name__icontains=layer",
    );
    expect(chips(state, COLUMNS).map((chip) => chip.label)).toEqual([
      "Search “conv”",
      "GPU time ≥ 1 ms",
      "Using TC: no",
      "Op type: conv2d or linear",
      "Op name contains “layer”",
    ]);
  });
});

describe("requests", () => {
  const state = read("?ops.page=2&ops.q=conv&ops.f.using_tc=1");

  it("ask for the page, the order, the search and the filters", () => {
    expect(listParams(state)).toEqual({
      page: 2,
      page_size: 50,
      ordering: "-gpu_time_ns",
      search: "conv",
      using_tc: "1",
    });
  });

  it("export everything that fits, not the page", () => {
    expect(filterParams(state)).toEqual({
      ordering: "-gpu_time_ns",
      search: "conv",
      using_tc: "1",
    });
  });

  it("know how many pages there are", () => {
    expect(pageCount(0, 50)).toBe(1);
    expect(pageCount(50, 50)).toBe(1);
    expect(pageCount(51, 50)).toBe(2);
  });
});
