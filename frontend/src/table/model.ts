/** What a table shows, apart from how it is drawn: state, address, request. Pure functions only. */

import { t } from "../i18n";
import { NS_PER_UNIT, type TimeUnit } from "../lib/units";
import type { Query, QueryPatch } from "../state/query";

export const PAGE_SIZES = [10, 25, 50, 100] as const;

export type ColumnKind = "text" | "number" | "boolean" | "choice";

/** What the model needs to know of a column; how a cell looks is in `spec.ts`. */
export interface ColumnModel {
  readonly key: string;
  readonly title: string;
  readonly kind: ColumnKind;
  /** Times come in ns and are shown, typed and filtered in this unit. */
  readonly unit?: TimeUnit;
  /** The value adds up the aggregated iterations. */
  readonly isSum?: boolean;
  /** The unit as the header has it, where it is not `unit`: "ms/step". */
  readonly shownUnit?: string;
  /** What the shown value is multiplied by for the API, besides its unit. */
  readonly factor?: number;
  readonly isSortable?: boolean;
  readonly isFilterable?: boolean;
  /** A flag that this one can lack: rows that have that and not this are a choice of their own. */
  readonly lacking?: { readonly key: string; readonly label: string };
}

/** Everything about a table that a link has to carry. */
export interface TableState {
  /** From 1. */
  readonly page: number;
  readonly pageSize: number;
  /** API ordering: "-gpu_time_ns". */
  readonly sort: string;
  readonly search: string;
  /** API filter name (`gpu_time_ns__gte`) -> API value (ns for times). */
  readonly filters: Readonly<Record<string, string>>;
}

export interface TableDefaults {
  readonly sort: string;
  readonly pageSize: number;
}

const FILTER_MARK = "f.";

function positiveInt(text: string | undefined): number | null {
  if (text === undefined || !/^\d{1,9}$/.test(text)) return null;
  const value = Number(text);
  return value >= 1 ? value : null;
}

/** Reads `<id>.page`, `.size`, `.sort`, `.q` and `.f.<filter>` from the address. */
export function readTableState(query: Query, id: string, defaults: TableDefaults): TableState {
  const filters: Record<string, string> = {};
  const prefix = `${id}.${FILTER_MARK}`;
  for (const [key, value] of query) {
    if (key.startsWith(prefix)) filters[key.slice(prefix.length)] = value;
  }
  const size = positiveInt(query.get(`${id}.size`));
  const isOffered = PAGE_SIZES.some((offered) => offered === size);
  return {
    page: positiveInt(query.get(`${id}.page`)) ?? 1,
    pageSize: size !== null && isOffered ? size : defaults.pageSize,
    sort: query.get(`${id}.sort`) ?? defaults.sort,
    search: query.get(`${id}.q`) ?? "",
    filters,
  };
}

/** The change to the address that takes a table from one state to another. */
export function tablePatch(
  id: string,
  before: TableState,
  after: TableState,
  defaults: TableDefaults,
): QueryPatch {
  const patch: Record<string, string | null> = {
    [`${id}.page`]: after.page === 1 ? null : String(after.page),
    [`${id}.size`]: after.pageSize === defaults.pageSize ? null : String(after.pageSize),
    [`${id}.sort`]: after.sort === defaults.sort ? null : after.sort,
    [`${id}.q`]: after.search,
  };
  for (const name of Object.keys(before.filters)) patch[`${id}.${FILTER_MARK}${name}`] = null;
  for (const [name, value] of Object.entries(after.filters)) {
    patch[`${id}.${FILTER_MARK}${name}`] = value;
  }
  return patch;
}

/** The state with the search as a filter of one column, where a table searches in one only. */
export function askedFor(state: TableState, searchIn: string | undefined): TableState {
  if (searchIn === undefined || state.search === "") return state;
  const filters = { ...state.filters, [`${searchIn}__icontains`]: state.search };
  return { ...state, search: "", filters };
}

/** What the rows are asked with: the same for the list and for its export. */
export function filterParams(state: TableState): Record<string, string> {
  const params: Record<string, string> = { ordering: state.sort, ...state.filters };
  if (state.search !== "") params.search = state.search;
  return params;
}

export function listParams(state: TableState): Record<string, string | number> {
  return { ...filterParams(state), page: state.page, page_size: state.pageSize };
}

export function isFiltered(state: TableState): boolean {
  return state.search !== "" || Object.keys(state.filters).length > 0;
}

/** Whether the order or a filter is about a column. */
export function isUsed(state: TableState, key: string): boolean {
  const ordered = state.sort.split(",").some((term) => term.replace(/^-/, "") === key);
  const isNamed = (name: string) => name === key || name.startsWith(`${key}__`);
  return ordered || Object.keys(state.filters).some(isNamed);
}

export type SortDirection = "ascending" | "descending" | null;

export function sortDirection(sort: string, key: string): SortDirection {
  if (sort === key) return "ascending";
  return sort === `-${key}` ? "descending" : null;
}

/** A click on a header: numbers and flags start with the largest, text with A; then it turns. */
export function nextSort(sort: string, column: ColumnModel): string {
  const direction = sortDirection(sort, column.key);
  if (direction === "ascending") return `-${column.key}`;
  if (direction === "descending") return column.key;
  return column.kind === "number" || column.kind === "boolean" ? `-${column.key}` : column.key;
}

export function pageCount(count: number, pageSize: number): number {
  return Math.max(1, Math.ceil(count / pageSize));
}

/** Sets or (with "") removes one filter; the table goes back to its first page. */
export function withFilter(state: TableState, name: string, value: string): TableState {
  const filters = { ...state.filters };
  if (value === "") delete filters[name];
  else filters[name] = value;
  return { ...state, filters, page: 1 };
}

export function withoutFilters(state: TableState): TableState {
  return { ...state, filters: {}, search: "", page: 1 };
}

type Scaled = Pick<ColumnModel, "unit" | "factor">;

/** What a value in the unit of its column is multiplied by to be one of the API. */
function apiFactor({ unit, factor = 1 }: Scaled): number {
  return factor * (unit === undefined ? 1 : NS_PER_UNIT[unit]);
}

/** A number that was typed in the unit of the column -> what the API takes; null if it is none. */
export function toApiNumber(text: string, column: Scaled = {}): string | null {
  const cleaned = text.trim().replaceAll(",", "");
  if (cleaned === "" || !/^-?(?:\d+|\d*\.\d+)$/.test(cleaned)) return null;
  const value = Number(cleaned) * apiFactor(column);
  return column.unit === undefined ? String(value) : String(Math.round(value));
}

/** The reverse of `toApiNumber`, for the field. */
export function fromApiNumber(value: string, column: Scaled = {}): string {
  // A link may hold anything; the server says what is wrong with it.
  const factor = apiFactor(column);
  if (factor === 1 || !Number.isFinite(Number(value))) return value;
  // Without the noise of a division: 0.3, not 0.30000000000000004.
  return String(Number((Number(value) / factor).toPrecision(9)));
}

export interface Chip {
  /** Filter names that go when the chip is removed; empty for the search text. */
  readonly filter: string | null;
  readonly label: string;
}

const OPERATORS: readonly (readonly [suffix: string, sign: string])[] = [
  ["__gte", "≥"],
  ["__lte", "≤"],
  ["__icontains", "contains"],
  ["__in", "is"],
];

/** More values of a filter than this are counted, not listed. */
const MOST_LISTED = 3;

function listed(values: readonly string[]): string {
  if (values.length <= MOST_LISTED) return values.join(` ${t("or")} `);
  return t("{first} or {count} others", { first: values[0] ?? "", count: values.length - 1 });
}

function chipLabel(name: string, value: string, columns: readonly ColumnModel[]): string {
  const operator = OPERATORS.find(([suffix]) => name.endsWith(suffix));
  const key = operator === undefined ? name : name.slice(0, -operator[0].length);
  const column = columns.find((candidate) => candidate.key === key);
  const title = column?.title ?? key;
  if (operator === undefined && column?.kind === "boolean")
    return `${title}: ${value === "1" || value === "true" ? t("yes") : t("no")}`;
  if (operator === undefined) return `${title}: ${value}`;
  const [suffix, sign] = operator;
  if (suffix === "__icontains") return t("{column} contains “{value}”", { column: title, value });
  if (suffix === "__in") return `${title}: ${listed(value.split(","))}`;
  const unit = column?.shownUnit ?? column?.unit;
  return `${title} ${sign} ${fromApiNumber(value, column)}${unit === undefined ? "" : ` ${unit}`}`;
}

/** The active filters in words, in the order of the columns' filters. */
export function chips(state: TableState, columns: readonly ColumnModel[]): readonly Chip[] {
  const list: Chip[] = [];
  if (state.search !== "")
    list.push({ filter: null, label: t("Search “{text}”", { text: state.search }) });
  for (const [name, value] of Object.entries(state.filters)) {
    list.push({ filter: name, label: chipLabel(name, value, columns) });
  }
  return list;
}
