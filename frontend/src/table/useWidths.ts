/** Widths of columns that the reader has set, kept by the browser. Unit: px. */

import { useState } from "preact/hooks";
import { readStored, writeStored } from "../state/storage";

export type Widths = ReadonlyMap<string, number>;

export interface WidthChoice {
  readonly widths: Widths;
  /** null: as wide as at first. */
  readonly resize: (key: string, px: number | null) => void;
}

const NARROWEST = 48;
const WIDEST = 2_000;

/** "gpu_time_ns:140,op_name:320" -> the widths; what is no width is left out. */
export function parseWidths(text: string | null): Widths {
  const pairs = (text ?? "").split(",").map((part) => part.split(":"));
  return new Map(
    pairs.flatMap(([key = "", px = ""]) =>
      key !== "" && /^\d{1,5}$/.test(px) ? [[key, withinLimits(Number(px))] as const] : [],
    ),
  );
}

export function formatWidths(widths: Widths): string | null {
  return widths.size === 0 ? null : [...widths].map(([key, px]) => `${key}:${px}`).join(",");
}

export function withinLimits(px: number): number {
  return Math.round(Math.min(WIDEST, Math.max(NARROWEST, px)));
}

export function useWidths(table: string): WidthChoice {
  const stored = `widths.${table}`;
  const [widths, setWidths] = useState<Widths>(() => parseWidths(readStored(stored)));
  const resize = (key: string, px: number | null) => {
    const next = new Map(widths);
    if (px === null) next.delete(key);
    else next.set(key, withinLimits(px));
    writeStored(stored, formatWidths(next));
    setWidths(next);
  };
  return { widths, resize };
}
