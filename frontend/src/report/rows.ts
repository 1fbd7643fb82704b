/** Sorts, filters and pages rows the way the server does. Pure functions only. */

import type { ColumnInfo, EncodedColumn, EncodedTable, TableInfo } from "./format";

export type Value = string | number | boolean | null;
export type Row = Readonly<Record<string, Value>>;
export type Parameters = ReadonlyMap<string, string>;

/** The end of a filter's name. */
const OPERATOR = /__(gte|lte|icontains|startswith|in)$/;

/** Parameters that are no filters. */
const OTHERS = new Set([
  "page",
  "page_size",
  "ordering",
  "search",
  "domain",
  "column",
  "format",
  "of_ops",
  "of_merged_ops",
]);

function numbersOf(column: EncodedColumn): readonly (number | null)[] {
  if (!("steps" in column)) return column;
  let value = 0;
  return column.steps.map((step) => {
    value += step;
    return value;
  });
}

function valuesOf(column: EncodedColumn, info: ColumnInfo, words: Words): readonly Value[] {
  const numbers = numbersOf(column);
  if (info.is_text) {
    const texts = numbers.map((place) => (place === null ? null : (words.strings[place] ?? "")));
    if (!info.is_sentence) return texts;
    return texts.map((text) => (text === null ? null : (words.sentences[text] ?? text)));
  }
  if (info.kind === "boolean") return numbers.map((flag) => (flag === null ? null : flag === 1));
  return numbers;
}

/** The texts of a report. */
export interface Words {
  readonly strings: readonly string[];
  /** Sentences in the reader's language, by their English words. */
  readonly sentences: Readonly<Record<string, string>>;
}

/** The rows of a table as the API gives them. */
export function decodeRows(table: EncodedTable, info: TableInfo, words: Words): readonly Row[] {
  const columns = info.columns.map((column, place) => {
    const encoded = table.columns[place] ?? [];
    return [column.name, valuesOf(encoded, column, words)] as const;
  });
  const length = columns[0]?.[1].length ?? 0;
  return Array.from({ length }, (_, place) =>
    Object.fromEntries(columns.map(([name, values]) => [name, values[place] ?? null])),
  );
}

/** The server knows upper and lower case of ASCII only; more is found here, never less. */
function contains(value: Value | undefined, text: string): boolean {
  return value !== null && String(value).toLowerCase().includes(text.toLowerCase());
}

type Test = (value: Value) => boolean;

function equals(wanted: string): Test {
  const isYes = wanted === "1" || wanted.toLowerCase() === "true";
  return (value) => (typeof value === "boolean" ? value === isYes : String(value) === wanted);
}

/** Whether a value passes an operator; an unknown value passes none. */
function testOf(operator: string, wanted: string): Test {
  switch (operator) {
    case "gte":
      return (value) => Number(value) >= Number(wanted);
    case "lte":
      return (value) => Number(value) <= Number(wanted);
    case "icontains":
      return (value) => contains(value, wanted);
    case "startswith":
      return (value) => String(value).startsWith(wanted);
    case "in": {
      const several = new Set(wanted.split(","));
      return (value) => several.has(String(value));
    }
    default:
      return equals(wanted);
  }
}

/** A column that a filter or the order names and the table does not have. */
export function unknownColumn(
  parameters: Parameters,
  ordering: string,
  info: TableInfo,
): string | null {
  const known = new Set(info.columns.map((column) => column.name));
  const filters = [...parameters.keys()].filter((name) => !OTHERS.has(name));
  const named = [
    ...filters.map((name) => name.replace(OPERATOR, "")),
    ...ordering.split(",").map((term) => term.replace(/^-/, "")),
  ];
  return named.find((name) => name !== "" && !known.has(name)) ?? null;
}

function filtersOf(parameters: Parameters): readonly ((row: Row) => boolean)[] {
  return [...parameters]
    .filter(([name]) => !OTHERS.has(name))
    .map(([name, wanted]) => {
      const column = name.replace(OPERATOR, "");
      const operator = OPERATOR.exec(name)?.[1] ?? "";
      const test = testOf(operator, wanted);
      return (row: Row) => {
        const value = row[column] ?? null;
        return value !== null && test(value);
      };
    });
}

function searchOf(parameters: Parameters, info: TableInfo): (row: Row) => boolean {
  const text = (parameters.get("search") ?? "").trim();
  if (text === "") return () => true;
  const names = info.columns.filter((column) => column.is_searched).map((column) => column.name);
  return (row) => names.some((name) => contains(row[name], text));
}

/** The rows that the search and the filters leave. */
export function filterRows(
  rows: readonly Row[],
  parameters: Parameters,
  info: TableInfo,
): readonly Row[] {
  const tests = [searchOf(parameters, info), ...filtersOf(parameters)];
  return rows.filter((row) => tests.every((test) => test(row)));
}

function compare(a: Value, b: Value): number {
  if (typeof a === "string" || typeof b === "string") {
    const [left, right] = [String(a), String(b)];
    if (left === right) return 0;
    return left < right ? -1 : 1;
  }
  return Number(a) - Number(b);
}

/** Unknown values come last in either direction. */
function comparison(term: string): (a: Row, b: Row) => number {
  const isDescending = term.startsWith("-");
  const name = isDescending ? term.slice(1) : term;
  return (a, b) => {
    const left = a[name] ?? null;
    const right = b[name] ?? null;
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    return isDescending ? compare(right, left) : compare(left, right);
  };
}

/** Rows in order; equal ones stay as they came. */
export function sortRows(rows: readonly Row[], ordering: string): readonly Row[] {
  const terms = ordering.split(",").filter((term) => term !== "");
  const comparisons = terms.map(comparison);
  return rows.toSorted((a, b) => {
    for (const compareBy of comparisons) {
      const order = compareBy(a, b);
      if (order !== 0) return order;
    }
    return 0;
  });
}

export interface Distinct {
  readonly value: Value;
  readonly count: number;
}

/** The values of a column and how many rows have each, commonest first. */
export function distinctValues(rows: readonly Row[], column: string): readonly Distinct[] {
  const counts = new Map<Value, number>();
  for (const row of rows) {
    const value = row[column] ?? null;
    counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  const found = [...counts].map(([value, count]) => ({ value, count }));
  return found.sort((a, b) => b.count - a.count || compare(a.value, b.value));
}
