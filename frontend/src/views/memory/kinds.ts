/** Names and colors of the kinds of memory. */

import { t } from "../../i18n";

const KINDS: Readonly<Record<string, string>> = {
  parameter: t("Parameters"),
  "optimizer state": t("Optimizer states"),
  gradient: t("Gradients"),
  activation: t("Activations"),
  temporary: t("Temporary"),
  workspace: t("Workspace and rounding"),
  unknown: t("Unknown"),
};

const EVIDENCE: Readonly<Record<string, string>> = {
  "the run recorded its address": t("the run recorded its address"),
  "its call stack names it": t("its call stack names it"),
  "allocated in the forward pass, released after the backward pass began": t(
    "allocated in the forward pass, released after the backward pass began",
  ),
  "allocated and released in the forward pass": t("allocated and released in the forward pass"),
  "allocated in the backward pass, still alive after it": t(
    "allocated in the backward pass, still alive after it",
  ),
  "allocated and released in the backward pass": t("allocated and released in the backward pass"),
  "allocated in the optimizer, still alive after it": t(
    "allocated in the optimizer, still alive after it",
  ),
  "allocated and released in the optimizer": t("allocated and released in the optimizer"),
  "alive all the time, with the size of a gradient": t(
    "alive all the time, with the size of a gradient",
  ),
  "alive all the time, and neither gradients nor an optimizer were recorded": t(
    "alive all the time, and neither gradients nor an optimizer were recorded",
  ),
  "allocated and released between the phases": t("allocated and released between the phases"),
  "a size that libraries take as workspace, alive from its first use to the end": t(
    "a size that libraries take as workspace, alive from its first use to the end",
  ),
  "the allocator rounds sizes up": t("the allocator rounds sizes up"),
  "allocated in the forward pass, alive when the memory was exhausted before the backward pass": t(
    "allocated in the forward pass, alive when the memory was exhausted before the backward pass",
  ),
  "allocated before the recording; the call that released it names it": t(
    "allocated before the recording; the call that released it names it",
  ),
};

export function kindName(kind: string): string {
  return KINDS[kind] ?? kind;
}

/** Why an allocation has its kind. */
export function evidenceText(evidence: string): string {
  return EVIDENCE[evidence] ?? evidence;
}

export function kindColor(kind: string): string {
  return `var(--memory-${kind.replace(" ", "-")})`;
}
