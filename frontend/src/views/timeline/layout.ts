/** Which rows a timeline has, from top to bottom. Pure functions only. */

import type { Lane, Scale } from "../../api/types";
import { t } from "../../i18n";
import { bytesText } from "../../lib/bytes";
import { formatPct } from "../../lib/units";

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

/** A heading for each group, then its lanes unless it is folded. */
export function layOut(lanes: readonly Lane[], folded: ReadonlySet<string>): Layout {
  const rows: Row[] = [];
  let y = 0;
  let group = "";
  for (const lane of lanes) {
    if (lane.group !== group && lane.group !== "") {
      const idleKey = lane.kind === "idle" ? lane.key : null;
      rows.push({
        kind: "group",
        group: lane.group,
        title: GROUPS[lane.group] ?? lane.group,
        y,
        height: HEAD,
        idleKey,
      });
      y += HEAD;
    }
    group = lane.group;
    if (folded.has(group)) continue;
    const { key, kind, scale } = lane;
    const height = scale === null ? ROW : COUNTER_ROW;
    rows.push({ kind: "lane", key, laneKind: kind, title: laneTitle(lane), y, height, scale });
    y += height;
  }
  return { rows, height: y };
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
