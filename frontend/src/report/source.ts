/** Answers the API's addresses out of the file, so that the page is the viewer's own. */

import { ApiError } from "../api/client";
import type { ListPage, UnknownReasons } from "../api/lists";
import type { FigureTrace, IterationFigure } from "../charts/iterationFigure";
import { language, t } from "../i18n";
import { rangesText } from "../lib/text";
import { formatInt } from "../lib/units";
import { exported, type SavedFile } from "./exports";
import type {
  DomainData,
  EncodedIteration,
  EncodedTable,
  LocalizedData,
  ReportData,
  TableInfo,
} from "./format";
import { mergedKernels } from "./kernels";
import {
  decodeRows,
  distinctValues,
  filterRows,
  type Parameters,
  type Row,
  sortRows,
  unknownColumn,
  type Value,
  type Words,
} from "./rows";

const API = "/api/v1/";
const DISTINCT_LIMIT = 200;

const MERGED_KERNELS = "merged-kernels";

/** Rows of a table that are at hand. */
interface Held {
  readonly rows: readonly Row[];
  /** Rows that the profile has. */
  readonly count: number;
  readonly unknown: UnknownReasons;
  /** Describes the columns. */
  readonly template: string;
}

/** Gives the data of an element of the file. */
export type Unpack = (id: string) => Promise<unknown>;

function notHere(path: string): ApiError {
  return new ApiError(404, {
    code: "NOT_IN_REPORT",
    message: t("This report does not contain it."),
    hint: t("Open the database in the viewer to see everything."),
    details: { path },
  });
}

function noColumn(name: string): ApiError {
  return new ApiError(400, {
    code: "UNKNOWN_COLUMN",
    message: t("This table has no column “{name}” to filter or sort by.", { name }),
    hint: "",
  });
}

export class ReportSource {
  readonly #report: ReportData;
  readonly #localized: LocalizedData;
  readonly #unpack: Unpack;
  /** Tables by domain and address, decoded when first asked for. */
  readonly #held = new Map<string, Promise<Held>>();

  constructor(report: ReportData, localized: LocalizedData, unpack: Unpack) {
    this.#report = report;
    this.#localized = localized;
    this.#unpack = unpack;
  }

  /** The answer to an address of the API. */
  async answer(url: string): Promise<unknown> {
    const { pathname, searchParams } = new URL(url, "http://report");
    const parts = pathname.slice(API.length).split("/").filter(Boolean).map(decodeURIComponent);
    const { profile, aggregation } = this.#localized;
    if (parts[0] === "jobs") return listOf([]);
    if (parts[0] !== "profiles") throw notHere(pathname);
    if (parts.length === 1) return listOf([profile]);
    if (parts.length === 2) return profile;
    if (parts.length === 3) return listOf([aggregation]);
    return this.#scoped(parts.slice(4), new Map(searchParams));
  }

  async #scoped(parts: readonly string[], parameters: Parameters): Promise<unknown> {
    const domain = parameters.get("domain") ?? Object.keys(this.#report.domains)[0] ?? "";
    const localized = this.#localized.domains[domain];
    if (localized === undefined) throw notHere(domain);
    if (parts[0] === "figures") return figureOf(localized.figures, parts[1] ?? "", parameters);
    const object = localized.objects[parts.join("/")];
    if (object !== undefined) return object;
    if (parts.at(-1) === "distinct") {
      const held = await this.#table(domain, parts.slice(0, -1));
      return this.#distinct(await this.#ofOps(held, domain, parameters), parameters);
    }
    if (parts.at(-1) === "export") {
      const held = await this.#table(domain, parts.slice(0, -1));
      return this.#export(await this.#ofOps(held, domain, parameters), domain, parameters);
    }
    if (parts[0] === "ops" && parts.length === 2) return this.#op(domain, parts[1] ?? "");
    const held = await this.#table(domain, parts);
    return this.#page(await this.#ofOps(held, domain, parameters), parameters);
  }

  /** The rows of the ops that a list of kernels follows. */
  async #ofOps(held: Held, domain: string, parameters: Parameters): Promise<Held> {
    const isMerged = parameters.has("of_merged_ops");
    const wanted = parameters.get(isMerged ? "of_merged_ops" : "of_ops");
    if (wanted === undefined) return held;
    const followed = await this.#table(domain, [isMerged ? "merged-ops" : "ops"]);
    const { rows } = this.#selected(followed, new Map(new URLSearchParams(wanted)));
    const found = new Set(rows.map(isMerged ? mergedName : (row) => row.op_id));
    const ops = await this.#table(domain, ["ops"]);
    const own = ops.rows.filter((row) =>
      found.has(isMerged ? mergedName(row) : (row.op_id ?? null)),
    );
    const ids = new Set(own.map((row) => row.op_id));
    if (held.template === MERGED_KERNELS) return this.#kernelsOf(ids, held, domain);
    return { ...held, rows: held.rows.filter((row) => ids.has(row.op_id ?? null)) };
  }

  /** Kernels with the launches of some ops only. */
  async #kernelsOf(ids: ReadonlySet<Value | undefined>, all: Held, domain: string): Promise<Held> {
    const parts = await Promise.all(
      [...ids].map((id) => this.#table(domain, ["ops", String(id), "kernels"])),
    );
    const left = parts.some((part) => part.rows.length < part.count || part.unknown["*"]);
    if (left) {
      const reason = t("This report does not contain the kernels of all these ops.");
      return { ...all, rows: [], count: 0, unknown: { "*": reason } };
    }
    const rows = mergedKernels(
      all.rows,
      parts.map((part) => part.rows),
    );
    return { ...all, rows, count: rows.length };
  }

  async #op(domain: string, opId: string): Promise<unknown> {
    const { rows, unknown } = await this.#table(domain, ["op-details"]);
    const row = rows.find((candidate) => candidate.op_id === opId);
    if (row === undefined) throw notHere(opId);
    return { ...row, unknown };
  }

  /** The rows that are asked for, on all pages. */
  #selected(held: Held, parameters: Parameters): { rows: readonly Row[]; ordering: string } {
    const info = this.#info(held.template);
    const ordering = parameters.get("ordering") || info.ordering;
    const unknown = unknownColumn(parameters, ordering, info);
    if (unknown !== null) throw noColumn(unknown);
    return { rows: sortRows(filterRows(held.rows, parameters, info), ordering), ordering };
  }

  #info(template: string): TableInfo {
    const info = this.#report.tables[template];
    if (info === undefined) throw notHere(template);
    return info;
  }

  #export(held: Held, domain: string, parameters: Parameters): SavedFile {
    const { profile, aggregation } = this.#localized;
    const { name: table, columns } = this.#info(held.template);
    const header = {
      profile: profile.name ?? profile.file_name,
      table,
      aggregation_id: aggregation.id,
      domain,
      columns: columns.map((column) => column.name),
    };
    const { rows } = this.#selected(held, parameters);
    const reals = columns.filter((column) => column.is_real).map((column) => column.name);
    return exported(parameters.get("format") ?? "csv", header, rows, new Set(reals));
  }

  #page(held: Held, parameters: Parameters): ListPage<Row> {
    const { rows, ordering } = this.#selected(held, parameters);
    const page = Number(parameters.get("page") ?? 1);
    const size = Number(parameters.get("page_size") ?? 50);
    return {
      count: rows.length,
      page,
      page_size: size,
      ordering,
      results: rows.slice((page - 1) * size, page * size),
      unknown: held.unknown,
      cut: { held: held.rows.length, count: held.count },
    };
  }

  #distinct(held: Held, parameters: Parameters): unknown {
    const column = parameters.get("column") ?? "";
    const values = distinctValues(held.rows, column);
    return {
      column,
      is_truncated: values.length > DISTINCT_LIMIT,
      results: values.slice(0, DISTINCT_LIMIT),
    };
  }

  #table(domain: string, parts: readonly string[]): Promise<Held> {
    const key = JSON.stringify([domain, ...parts]);
    const known = this.#held.get(key);
    if (known !== undefined) return known;
    const held = this.#read(domain, parts);
    this.#held.set(key, held);
    return held;
  }

  async #read(domain: string, parts: readonly string[]): Promise<Held> {
    const data = this.#report.domains[domain];
    if (data === undefined) throw notHere(domain);
    const [first = "", second = "", third, ...rest] = parts;
    if (third === undefined) return this.#decoded(first, data.tables[first]);
    if ((first === "ops" || first === "kernels") && third !== "kernels") throw notHere(third);
    if (first === "ops")
      return this.#decoded("ops/{op_id}/kernels", data.op_kernels[second], second);
    const op = third === "ops" ? rest[0] : undefined;
    return this.#ofIteration(data, second, op === undefined ? third : "op", op ?? "");
  }

  #decoded(template: string, table: EncodedTable | undefined, opId?: string): Held {
    const info = this.#info(template);
    if (table === undefined) {
      if (opId === undefined) throw notHere(template);
      const reason = t("This report does not contain the kernels of this op.");
      return { rows: [], count: 0, unknown: { "*": reason }, template };
    }
    const rows = decodeRows(table, info, this.#words);
    return { rows, count: table.count, unknown: this.#translated(table.unknown), template };
  }

  get #words(): Words {
    const { strings, sentences } = this.#report;
    return { strings, sentences: sentences[language] ?? {} };
  }

  #translated(reasons: UnknownReasons): UnknownReasons {
    const { sentences } = this.#words;
    const translated = Object.entries(reasons).map(([name, text]) => [
      name,
      sentences[text] ?? text,
    ]);
    return Object.fromEntries(translated) as UnknownReasons;
  }

  async #ofIteration(
    data: DomainData,
    iteration: string,
    what: string,
    opId: string,
  ): Promise<Held> {
    const template = `iterations/{iteration}/${what === "op" ? "ops/{op_id}/kernels" : what}`;
    const element = data.iterations[iteration];
    if (element === undefined) return this.#noIteration(data, iteration, template);
    const found = (await this.#unpack(element)) as EncodedIteration;
    if (what === "ops") return this.#decoded(template, found.ops);
    const launches = this.#decoded("iterations/{iteration}/kernels", found.kernels);
    if (what === "kernels") {
      const rows = launches.rows.slice(0, this.#report.rows);
      return { ...launches, rows };
    }
    const rows = launches.rows.filter((row) => row.op_id === opId);
    const count = found.launches_of_op?.[opId] ?? rows.length;
    return { ...launches, rows: rows.slice(0, this.#report.rows), count, template };
  }

  /** An empty table: the iteration is not aggregated, or was left out for size. */
  #noIteration(data: DomainData, iteration: string, template: string): Held {
    const { iter_start: start, iter_stop: stop } = this.#localized.aggregation;
    const index = Number(iteration);
    const isOutside = start !== null && stop !== null && (index < start || index > stop);
    const unknown: UnknownReasons = isOutside ? {} : { "*": leftOutText(data) };
    return { rows: [], count: 0, unknown, template };
  }
}

function leftOutText(data: DomainData): string {
  const held = Object.keys(data.iterations).map(Number);
  return t(
    "To limit its size, this report contains the ops and kernels of {count} iterations: {ranges}. The viewer shows those of all iterations.",
    { count: formatInt(held.length), ranges: rangesText(held) },
  );
}

function listOf(results: readonly unknown[]): ListPage<unknown> {
  return { count: results.length, page: 1, page_size: 200, ordering: "", results };
}

function index(text: string | undefined): number | null {
  return text === undefined || text === "" ? null : Number(text);
}

/** Bars that are drawn at once: as many as the server gives. */
const MAX_BARS = 120;

function figureOf(
  figures: Readonly<Record<string, unknown>>,
  name: string,
  parameters: Parameters,
): unknown {
  const theme = parameters.get("theme") ?? "light";
  const whole = figures[`${name}/${theme}`] as IterationFigure | undefined;
  if (whole !== undefined) return whole;
  const key = `${name}/${theme}/${parameters.get("view") ?? "all"}`;
  const figure = figures[key] as IterationFigure | undefined;
  if (figure === undefined) throw notHere(name);
  const [start, stop] = [index(parameters.get("start")), index(parameters.get("stop"))];
  const most = index(parameters.get("max_bars")) ?? MAX_BARS;
  const fine = cutFigure((figures[`${key}/fine`] ?? figure) as IterationFigure, start, stop);
  const isTooFine = (fine.layout.meta?.bars.length ?? 0) > most;
  return isTooFine ? cutFigure(figure, start, stop) : fine;
}

/** What the ops of all ranks have in common that a merged row stands for. */
function mergedName(row: Row): string {
  const name = String(row.op_name);
  const rank = `/rank_${row.rank}/`;
  const own = name.startsWith(rank) ? name.slice(rank.length - 1) : name;
  return JSON.stringify([own, row.direction, row.op_type]);
}

/** The bars that lie inside of the range; each stands for as many iterations as before. */
export function cutFigure(
  figure: IterationFigure,
  start: number | null,
  stop: number | null,
): IterationFigure {
  const { meta } = figure.layout;
  // Without it there is nothing to draw.
  if (meta?.bars === undefined || (start === null && stop === null)) return figure;
  const places = meta.bars.flatMap((bar, place) =>
    (start === null || bar.last >= start) && (stop === null || bar.first <= stop) ? [place] : [],
  );
  const bars = places.flatMap((place) => meta.bars[place] ?? []);
  const first = bars[0];
  const last = bars.at(-1);
  if (first === undefined || last === undefined) return { ...figure, data: [] };
  const cut = <Item>(items: readonly Item[]): Item[] =>
    places.flatMap((place) => (place < items.length ? [items[place] as Item] : []));
  const cutTrace = (trace: FigureTrace): FigureTrace => ({
    ...trace,
    x: cut(trace.x),
    y: cut(trace.y),
    ...(Array.isArray(trace.width) ? { width: cut(trace.width as readonly number[]) } : {}),
    ...(Array.isArray(trace.customdata) ? { customdata: cut(trace.customdata) } : {}),
  });
  return {
    data: figure.data.map(cutTrace),
    layout: { ...figure.layout, meta: { ...meta, bars, first: first.first, last: last.last } },
  };
}
