/** Turns the breakdown of a step into slices. Pure functions only. */

import type { ResourceUsage } from "../../api/types";
import { t } from "../../i18n";
import { IDLE_PARTS, PARTS, type PartKey, RARE_PARTS, type Slice } from "../../lib/activities";

/** Which step is broken down: that without profiling, or the one that was profiled. */
export type Source = "corrected_" | "";

/** Communication is a part of its own here; the API counts it among the other kernels. */
function shareOf(usage: ResourceUsage, part: PartKey, source: Source): number | null {
  const value = usage[`${source}${part}_pct`];
  if (part !== "non_tc" || value === null) return value;
  return Math.max(0, value - (usage[`${source}communication_pct`] ?? 0));
}

export function slicesOf(usage: ResourceUsage, source: Source): readonly Slice[] {
  return PARTS.flatMap((part) => {
    const value = shareOf(usage, part.key, source);
    const isAbsent = value === null || (RARE_PARTS.has(part.key) && value === 0);
    return isAbsent ? [] : [{ key: part.key, label: part.label, hint: part.hint, value }];
  });
}

/** The share in which the GPU works; it and the idle share add up to 100. Unit: percent. */
export function busyShare(slices: readonly Slice[]): number {
  const sum = (some: readonly Slice[]) => some.reduce((total, slice) => total + slice.value, 0);
  const busy = sum(slices.filter((slice) => !IDLE_PARTS.has(slice.key)));
  return (100 * busy) / Math.max(sum(slices), 1e-9);
}

/** Parts the database does not know (older ones lack dataloader and I/O), in words. */
export function missingText(usage: ResourceUsage): string {
  // Databases of NVIDIA count graphs and communication among the other kernels.
  const missing = PARTS.filter(
    (part) => !RARE_PARTS.has(part.key) && usage[`${part.key}_pct`] === null,
  );
  const [first] = missing;
  if (first === undefined) return "";
  const reason = usage.unknown?.[`${first.key}_pct`] ?? t("The database does not contain it.");
  if (missing.length === 1 && first.key === "io" && usage.other_pct !== null) return reason;
  return `${t("Unknown: {parts}.", { parts: missing.map((part) => part.label).join(", ") })} ${reason}`;
}
