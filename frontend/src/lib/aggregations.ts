/** How lists name an aggregation. */

import type { AggregationsRow } from "../api/types";
import { t } from "../i18n";
import { phaseName } from "./phases";

/** "#1 · 0–20", "#2 · 3–18 · steady", "#3 · without warm-up · 5–18". */
export function aggregationLabel(aggregation: AggregationsRow): string {
  const { id, iter_start: start, iter_stop: stop } = aggregation;
  const parts = [`#${id}`];
  if (aggregation.name !== null && aggregation.name !== "") parts.push(aggregation.name);
  if (start !== null && stop !== null) parts.push(start === stop ? `${start}` : `${start}–${stop}`);
  if (aggregation.phase !== null && aggregation.phase !== "")
    parts.push(phaseName(aggregation.phase));
  if (aggregation.is_steady === true) parts.push(t("steady"));
  return parts.join(" · ");
}
