/** Which rows a timeline has, from top to bottom. Pure functions only. */

import type { Lane, Scale } from "../../api/types";
import { t } from "../../i18n";
import { bytesText, formatPct } from "../../lib/units";

export const ROW = 18;
export const HEAD = 24;
export const COUNTER_ROW = 36;

export type Row =
  | {
      readonly kind: "group";
      /** Its name among the lanes. */
      readonly group: string;
      readonly title: string;
      readonly y: number;
      readonly height: number;
      /** The lane of the GPU's idle time, from which its use is drawn; null: it is no GPU. */
      readonly idleKey: string | null;
      /** What one line shows of a folded group that is no GPU. */
      readonly lanes: readonly LaneRow[];
    }
  | {
      readonly kind: "lane";
      readonly key: string;
      readonly laneKind: string;
      readonly title: string;
      readonly y: number;
      readonly height: number;
      /** What the values of a counter mean; null: it is none. */
      readonly scale: Scale | null;
      /** Lanes of the same kind above it in its group. */
      readonly depth: number;
    };

export type LaneRow = Extract<Row, { kind: "lane" }>;

const TITLES: Readonly<Record<string, string>> = {
  iterations: t("Iterations"),
  key: t("Key node"),
  path: t("Critical path"),
  idle: t("idle"),
  modules: t("modules"),
  ops: t("ops"),
  loader: t("data loader"),
  calls: t("CUDA calls"),
  waits: t("synchronization"),
};

/** Groups that have a name of ours; others are GPUs and threads. */
const GROUPS: Readonly<Record<string, string>> = { Advice: t("Advice") };

/** Counters that have a name of ours; others have that of their source. */
const COUNTERS: Readonly<Record<string, string>> = {
  "Memory in use": t("Memory in use"),
  "Memory allocated": t("Memory allocated"),
  "Memory reserved": t("Memory reserved"),
  Utilization: t("Utilization"),
};

/** The title of a lane for people; empty: it continues the one above. */
export function laneTitle(lane: Lane): string {
  if (lane.title === "") return "";
  if (lane.scale !== null) return COUNTERS[lane.title] ?? lane.title;
  return TITLES[lane.kind] ?? lane.title.replaceAll("_", " ");
}

/** A value of a counter as text. */
export function valueText({ unit, step }: Scale, row: number): string {
  return unit === "bytes" ? bytesText(row * step) : `${formatPct((row * step) / 100)} %`;
}

export interface Layout {
  readonly rows: readonly Row[];
  readonly height: number;
}

/** Where a group is from top to bottom, by the kind of its first lane. */
const PLACES: Readonly<Record<string, number>> = {
  advice: 0,
  iterations: 1,
  key: 2,
  path: 3,
  idle: 4,
  work: 4,
  counter: 6,
};
const THREAD_PLACE = 5;

interface Group {
  readonly name: string;
  readonly place: number;
  /** 1 for the first thread of a process, which runs the loop. */
  readonly isMain: number;
  /** Time of its ops, by which the other threads are ordered. */
  readonly opsNs: number;
  readonly lanes: Lane[];
}

/** Steps, then GPUs, the thread of the loop, other threads, counters. */
function ordered(lanes: readonly Lane[]): readonly Group[] {
  const groups: Group[] = [];
  for (const lane of lanes) {
    const last = groups.at(-1);
    if (lane.group !== "" && last?.name === lane.group) last.lanes.push(lane);
    else {
      const place = PLACES[lane.kind] ?? THREAD_PLACE;
      const [, process, thread] = /Process (\d+), thread (\d+)/.exec(lane.group) ?? [];
      const isMain = process !== undefined && process === thread ? 1 : 0;
      groups.push({ name: lane.group, place, isMain, opsNs: 0, lanes: [lane] });
    }
  }
  const timed = groups.map((group) => {
    const ops = group.lanes.filter((lane) => lane.kind === "ops");
    return { ...group, opsNs: ops.reduce((sum, lane) => sum + (lane.busy_ns ?? 0), 0) };
  });
  return timed.sort(
    (a, b) =>
      a.place - b.place ||
      (a.place === THREAD_PLACE ? b.isMain - a.isMain || b.opsNs - a.opsNs : 0),
  );
}

/** Groups that are folded until the reader opens them: advice, and all threads but the loop's. */
export function foldedAtFirst(lanes: readonly Lane[]): ReadonlySet<string> {
  const groups = ordered(lanes);
  const [, ...others] = groups.filter((group) => group.place === THREAD_PLACE);
  const advice = groups.filter((group) => group.name !== "" && group.place === PLACES.advice);
  return new Set([...others, ...advice].map((group) => group.name));
}

/** A heading for each group, then its lanes unless it is folded. */
export function layOut(lanes: readonly Lane[], folded: ReadonlySet<string>): Layout {
  const rows: Row[] = [];
  let y = 0;
  for (const group of ordered(lanes)) {
    const isFolded = folded.has(group.name);
    if (group.name !== "") {
      const idleKey = group.lanes.find((lane) => lane.kind === "idle")?.key ?? null;
      const title = GROUPS[group.name] ?? group.name;
      const inLine = isFolded && idleKey === null ? laneRowsOf(inOneLine(group.lanes), y) : [];
      rows.push({
        kind: "group",
        group: group.name,
        title,
        y,
        height: HEAD,
        idleKey,
        lanes: inLine,
      });
      y += HEAD;
    }
    if (isFolded) continue;
    const own = laneRowsOf(group.lanes, y);
    rows.push(...own);
    y = own.reduce((below, row) => below + row.height, y);
  }
  return { rows, height: y };
}

/** The lanes of a group that its one line shows: advice, or the outermost ops, else calls. */
function inOneLine(lanes: readonly Lane[]): readonly Lane[] {
  const advice = lanes.filter((lane) => lane.kind === "advice");
  if (advice.length > 0) return advice;
  const first = lanes.find((lane) => lane.kind === "ops") ?? lanes[0];
  return first === undefined ? [] : [first];
}

function laneRowsOf(lanes: readonly Lane[], top: number): readonly LaneRow[] {
  let y = top;
  let depth = 0;
  let first = "";
  return lanes.map((lane) => {
    const { key, kind, scale } = lane;
    depth = lane.title === "" ? depth + 1 : 0;
    const own = laneTitle(lane);
    if (own !== "") first = own;
    // Ops and modules below others are their parts; streams go on beside the first row.
    const title = own === "" && kind === "work" ? `${first} (${depth + 1})` : own;
    const height = scale === null ? ROW : COUNTER_ROW;
    const row = { kind: "lane", key, laneKind: kind, title, y, height, scale, depth } as const;
    y += height;
    return row;
  });
}

/** "python3 5015" for "Process 5015, thread 5015 (python3)"; other groups have short names. */
export function shortTitle(title: string): string {
  const found = /^(Rank \d+: )?Process \d+, thread (\d+)(?: \((.+)\))?$/.exec(title);
  if (found === null) return title;
  const [, rank = "", thread = "", name = t("thread")] = found;
  return `${rank}${name} ${thread}`;
}

/** The rows that any part of a window of pixels shows, found by bisection. */
export function rowsBetween(rows: readonly Row[], top: number, bottom: number): readonly Row[] {
  const first = placeOf(rows, top);
  let last = first;
  while (last < rows.length && (rows[last]?.y ?? 0) < bottom) last += 1;
  return rows.slice(first, last);
}

/** The row at a height; null: below the last one. */
export function rowAt(rows: readonly Row[], y: number): Row | null {
  const row = rows[placeOf(rows, y)];
  return row !== undefined && y >= row.y ? row : null;
}

/** Index of the first row that ends below a height. */
function placeOf(rows: readonly Row[], y: number): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const row = rows[middle];
    if (row !== undefined && row.y + row.height <= y) low = middle + 1;
    else high = middle;
  }
  return low;
}
