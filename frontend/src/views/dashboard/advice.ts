/** Turns the advice of the API into what the page shows. Pure functions only. */

import type { AdviceRow } from "../../api/types";
import { t } from "../../i18n";
import { durationText, formatFixed } from "../../lib/units";
import type { QueryPatch } from "../../state/query";

/** Views that advice may link to; the contents of a profile cannot name others. */
const VIEWS = ["ops", "iterations", "kernels-by-iteration", "gpus", "op-types"] as const;

/** All of the advice is few rows. */
export const ADVICE_PARAMS = { page_size: 100 } as const;

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
  if (view === "ops" && patch.op !== undefined) return { view: "op", patch };
  return { view, patch };
}

/** The database names kernels without a link. */
function linkOf(item: Record<string, unknown>): AdviceLink | null {
  if (item.kind !== "kernel") return readLink(item.link);
  return { view: "kernel", patch: { kernel: String(item.name ?? "") } };
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

/** What a fix could save: the time, then its share of a step; null: unknown. */
export function gainText(row: AdviceRow, hasTimes: boolean): string | null {
  const { gain_ns: ns, gain_pct: pct } = row;
  const share = pct === null ? "" : formatFixed(pct, 0);
  if (ns !== null) {
    const time = durationText(ns);
    return pct === null
      ? t("could save up to {time}", { time })
      : t("could save up to {time} ({share}%)", { time, share });
  }
  if (pct === null) return null;
  return hasTimes
    ? t("could save up to {share}% of the time per sample", { share })
    : t("could save up to {share}% of the step", { share });
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
            link: linkOf(item),
          },
        ],
  );
}
