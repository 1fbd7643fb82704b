/** How lists name an aggregation. */

import type { AggregationsRow } from "../api/types";
import { t } from "../i18n";

/** "Steps 3–18 · no start-up", "without warm-up", "Step 4 · decode": without the number. */
export function aggregationTitle(aggregation: AggregationsRow): string {
  const { name, iter_start: start, iter_stop: stop } = aggregation;
  const parts: string[] = [];
  if (name !== null && name !== "") parts.push(name);
  else if (start !== null && stop !== null) {
    parts.push(
      start === stop
        ? t("Step {step}", { step: start })
        : t("Steps {first}–{last}", { first: start, last: stop }),
    );
  }
  return [...parts, ...marks(aggregation)].join(" · ");
}

/** "#1 · 0–20", "#2 · 3–18 · no start-up", "#3 · without warm-up · 5–18". */
export function aggregationLabel(aggregation: AggregationsRow): string {
  const { id, iter_start: start, iter_stop: stop } = aggregation;
  const parts = [`#${id}`];
  if (aggregation.name !== null && aggregation.name !== "") parts.push(aggregation.name);
  if (start !== null && stop !== null) parts.push(start === stop ? `${start}` : `${start}–${stop}`);
  return [...parts, ...marks(aggregation)].join(" · ");
}

function marks({ phase, is_steady }: AggregationsRow): readonly string[] {
  return [
    ...(phase === null || phase === "" ? [] : [phaseName(phase)]),
    ...(is_steady === true ? [t("no start-up")] : []),
  ];
}

const NAMES: Readonly<Record<string, string>> = {
  prefill: t("prefill"),
  decode: t("decode"),
  mixed: t("mixed"),
  train: t("training"),
  eval: t("evaluation"),
};

/** The name of a phase in the reader's language; a program's own name stays as it is. */
export function phaseName(phase: string): string {
  return NAMES[phase] ?? phase;
}

export interface IterationRequest {
  readonly iter_start?: number | null;
  readonly iter_stop?: number | null;
  readonly phase?: string | null;
}

export function rangeText(request: IterationRequest): string {
  const { iter_start: start, iter_stop: stop, phase } = request;
  const range = boundsText(start ?? null, stop ?? null);
  return phase == null || phase === "" ? range : `${range} · ${phaseName(phase)}`;
}

function boundsText(start: number | null, stop: number | null): string {
  if (start === null && stop === null) return t("All iterations");
  if (start !== null && start === stop) return t("Iteration {iteration}", { iteration: start });
  return t("Iterations {first}–{last}", { first: start ?? t("first"), last: stop ?? t("last") });
}
