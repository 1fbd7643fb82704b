/** Our own advice as the API tells it, made ready for the page. Pure functions only. */

import type { AdviceRow } from "../../api/types";
import type { QueryPatch } from "../../state/query";

/** Views that advice may lead to: what a profile says is data, and names no others. */
const VIEWS = ["ops", "iterations", "kernels-by-iteration", "gpus", "op-types"] as const;

export interface AdviceLink {
  readonly view: string;
  readonly patch: QueryPatch;
}

export interface EvidenceItem {
  readonly kind: string;
  readonly name: string;
  readonly timeNs: number | null;
  readonly count: number | null;
  readonly link: AdviceLink | null;
}

function record(value: unknown): Record<string, unknown> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

/** A link of the database, if it leads to a view of the list; null: it leads nowhere. */
export function readLink(value: unknown): AdviceLink | null {
  const link = record(value);
  const view = VIEWS.find((name) => name === link?.view);
  if (view === undefined) return null;
  const patch: Record<string, string> = {};
  for (const [key, text] of Object.entries(record(link?.params) ?? {})) {
    if (typeof text === "string") patch[key] = text;
  }
  return { view, patch };
}

function parsed(text: string | null): unknown {
  try {
    return JSON.parse(text ?? "null");
  } catch {
    return null;
  }
}

export function readDrillDown(row: AdviceRow): AdviceLink | null {
  return readLink(parsed(row.drill_down));
}

function numberOrNull(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

export function readEvidence(row: AdviceRow): readonly EvidenceItem[] {
  const items = parsed(row.evidence);
  if (!Array.isArray(items)) return [];
  return items.map(record).flatMap((item) =>
    item === null
      ? []
      : [
          {
            kind: String(item.kind ?? ""),
            name: String(item.name ?? ""),
            timeNs: numberOrNull(item.time_ns),
            count: numberOrNull(item.count),
            link: readLink(item.link),
          },
        ],
  );
}
