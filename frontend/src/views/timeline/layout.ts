/** Which rows a timeline has, from top to bottom. Pure functions only. */

import type { Lane } from "../../api/types";
import { t } from "../../i18n";

export const ROW = 18;
export const HEAD = 24;

export type Row =
  | {
      readonly kind: "group";
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

/** The title of a lane for people; empty: it continues the one above. */
export function laneTitle(lane: Lane): string {
  if (lane.title === "") return "";
  return TITLES[lane.kind] ?? lane.title.replaceAll("_", " ");
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
      rows.push({ kind: "group", title: lane.group, y, height: HEAD, idleKey });
      y += HEAD;
    }
    group = lane.group;
    if (folded.has(group)) continue;
    rows.push({
      kind: "lane",
      key: lane.key,
      laneKind: lane.kind,
      title: laneTitle(lane),
      y,
      height: ROW,
    });
    y += ROW;
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
