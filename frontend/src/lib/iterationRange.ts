/** Which iterations an aggregation has, or a job was asked for, in words. */

import { t } from "../i18n";
import { phaseName } from "./phases";

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
