/**
 * Whether sums are shown per step or in total: one switch for all tables and charts.
 *
 * The API and its exports give totals of the aggregated iterations; they are divided here only.
 */

import { t } from "../i18n";
import { navigate, useQuery } from "../state/location";
import { useScope } from "../state/scope";
import { durationText, formatCount } from "./units";

/** Parameter of the address; it stays when the view changes. */
export const PER = "per";

export interface Scale {
  readonly isPerStep: boolean;
  /** What sums are divided by: the steps of the aggregation, or 1 for totals. */
  readonly steps: number;
}

/** Whether the chosen aggregation may have steps; of older databases that is unknown. */
export function useHasSteps(): boolean {
  return useScope().aggregation.steps !== 0;
}

/** How sums of the chosen aggregation are shown. */
export function useScale(): Scale {
  const { aggregation } = useScope();
  const isPerStep = useHasSteps() && useQuery().get(PER) !== "total";
  const steps = aggregation.steps || aggregation.iter_aggregated || 1;
  return { isPerStep, steps: isPerStep ? steps : 1 };
}

/** The unit of a sum, as its header has it: "ms/step", "ms total", "/step". */
export function sumUnit(unit: string | undefined, { isPerStep }: Scale): string {
  if (isPerStep) return t("{unit}/step", { unit: unit ?? "" });
  return unit === undefined ? "" : t("{unit} total", { unit });
}

/** A sum of times in words: "1.152 ms/step", "20.74 ms total". */
export function sumText(ns: number, scale: Scale): string {
  return sumUnit(durationText(ns / scale.steps), scale);
}

/** A sum of calls in words: "3/step", "54 total". */
export function sumCount(count: number, scale: Scale): string {
  return sumUnit(formatCount(count / scale.steps), scale);
}

export function choosePerStep(isPerStep: boolean): void {
  navigate({ [PER]: isPerStep ? null : "total" }, { replace: true });
}
