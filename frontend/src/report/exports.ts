/** A table of a report as a file, as the server would write it. Pure functions only. */

import type { Row, Value } from "./rows";

/** What the reader gets to keep. */
export interface SavedFile {
  readonly name: string;
  readonly type: string;
  readonly text: string;
}

export interface ExportHeader {
  readonly profile: string;
  readonly table: string;
  readonly aggregation_id: number;
  readonly domain: string;
  readonly columns: readonly string[];
}

/** Text that a spreadsheet would run; the names in a profile are untrusted input. */
const FORMULA = /^[=+\-@\t\r]/;

/** A number with a fraction as the server writes it: "0.0", "1e-05". */
function realText(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e16 || (size < 1e-4 && size > 0)) {
    return value.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  }
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

function csvCell(value: Value, isReal: boolean): string {
  if (value === null) return "";
  if (typeof value === "number") return isReal ? realText(value) : String(value);
  const plain = typeof value === "boolean" ? (value ? "yes" : "no") : value;
  const safe = FORMULA.test(plain) ? `'${plain}` : plain;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csvText(header: ExportHeader, rows: readonly Row[], reals: ReadonlySet<string>): string {
  const lines = rows.map((row) =>
    header.columns.map((name) => csvCell(row[name] ?? null, reals.has(name))),
  );
  return [header.columns, ...lines].map((cells) => `${cells.join(",")}\r\n`).join("");
}

function jsonText(header: ExportHeader, rows: readonly Row[]): string {
  return `${JSON.stringify({ ...header, results: rows })}\n`;
}

/** `reals` are the columns whose numbers have a fraction. */
export function exported(
  format: string,
  header: ExportHeader,
  rows: readonly Row[],
  reals: ReadonlySet<string>,
): SavedFile {
  const profile = header.profile.replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[._]+|[._]+$/g, "");
  const stem = `${profile || "profile"}_${header.table}_aggregation${header.aggregation_id}`;
  return format === "json"
    ? { name: `${stem}.json`, type: "application/json", text: jsonText(header, rows) }
    : { name: `${stem}.csv`, type: "text/csv;charset=utf-8", text: csvText(header, rows, reals) };
}
