/** Turns the advice of the API into what the page shows. Pure functions only. */

import type { AdviceRow } from "../../api/types";
import { t } from "../../i18n";
import { durationRange, formatDuration, formatFixed } from "../../lib/units";
import type { QueryPatch } from "../../state/query";

/** Views that advice may link to; the contents of a profile cannot name others. */
const VIEWS = ["ops", "iterations", "kernels-by-iteration", "gpus", "op-types"] as const;

/** All of the advice is few rows. */
export const ADVICE_PARAMS = { page_size: 100 } as const;

export interface AdviceLink {
  readonly view: string;
  readonly patch: QueryPatch;
  /** How many rows it is about, where it shows fewer. */
  readonly total?: number;
}

export interface EvidenceItem {
  readonly kind: string;
  /** For people; `id` is what the database calls an op. */
  readonly name: string;
  readonly id: string;
  readonly timeNs: number | null;
  readonly count: number | null;
  /** Steps that these are sums of; null: those of the aggregation, or they are no sums. */
  readonly steps: number | null;
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
  return { view, patch, ...(typeof link?.total === "number" ? { total: link.total } : {}) };
}

/** The database names kernels and ranks without a link. */
function linkOf(item: Record<string, unknown>): AdviceLink | null {
  if (item.kind === "rank") return { view: "ranks", patch: {} };
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

export interface Gain {
  /** "−15.2 ms", "4x": short enough for a column. */
  readonly short: string;
  /** Share of a step. */
  readonly share: string | null;
  /** As a sentence. */
  readonly text: string;
}

/** What a fix could save; null: unknown. */
export function gainOf(row: AdviceRow, hasTimes: boolean): Gain | null {
  const { gain_ns: ns, gain_pct: pct } = row;
  const share = pct === null ? null : `${formatFixed(pct, 0)} %`;
  if (ns !== null) {
    const time = roughly(ns);
    if (row.most_ns !== null && pct !== null) {
      const short = durationRange(ns, row.most_ns);
      const most = `${formatFixed(pct, 0)}–${formatFixed(row.most_pct ?? 100, 0)} %`;
      return {
        short,
        share: most,
        text: t("{time} per step ({share})", { time: short, share: most }),
      };
    }
    if (row.gain_bound === "at_least" && share !== null) {
      const text = t("at least {time} per step ({share})", { time, share });
      return { short: `≥ ${time}`, share, text };
    }
    const text =
      share === null
        ? t("up to {time} per step", { time })
        : t("up to {time} per step ({share})", { time, share });
    return { short: `−${time}`, share, text };
  }
  if (pct === null || share === null) return null;
  if (!hasTimes)
    return { short: `−${share}`, share: null, text: t("up to {share} of the step", { share }) };
  const factor = formatFixed(100 / Math.max(1, 100 - pct), 1).replace(/\.0$/, "");
  return { short: `${factor}×`, share: null, text: t("up to {factor}x throughput", { factor }) };
}

/** A time with three digits: more would promise an exactness that no prediction has. */
function roughly(ns: number): string {
  const { value, unit } = formatDuration(ns);
  const number = Number(value.replaceAll(",", ""));
  return `${number >= 1000 ? value : Number(number.toPrecision(3))} ${unit}`;
}

/** What of a finding the timeline can mark: the work that its evidence names first. */
export function marksOf(items: readonly EvidenceItem[]): Readonly<Record<string, string>> | null {
  for (const { kind, name, link } of items) {
    if (kind === "kernel" || kind === "iteration") return { [kind]: name };
    const op = link?.patch.op;
    if ((kind === "op" || kind === "before") && op) return { op };
  }
  return null;
}

function numberOrNull(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

/** The evidence names an op with its number in front of its path. */
function nameOf({ kind, name }: Record<string, unknown>): { name: string; id: string } {
  const id = String(name ?? "");
  const path = /^\S+ (.+)$/.exec(id)?.[1] ?? id;
  if (kind === "gap") return { name: t("Median gap before a kernel"), id };
  if (kind === "before") return { name: t("Before {name}", { name: path }), id };
  // Everything else is named by the profile itself.
  return { name: kind === "op" ? path : id, id };
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
            ...nameOf(item),
            timeNs: numberOrNull(item.time_ns),
            count: numberOrNull(item.count),
            steps: numberOrNull(item.steps),
            link: linkOf(item),
          },
        ],
  );
}
