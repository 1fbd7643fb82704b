/** The names of kinds of iterations. */

import { t } from "../i18n";

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
