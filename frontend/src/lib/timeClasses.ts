/** The classes of time, named as in SQL, the terminal and the documentation. */

import { t } from "../i18n";

const NAMES: Readonly<Record<string, string>> = {
  "tensor core compute": t("tensor core compute"),
  "other compute": t("other compute"),
  communication: t("communication"),
  copy: t("copy"),
  set: t("set"),
  "waiting for the host": t("waiting for the host"),
  launching: t("launching"),
  "launched, not started": t("launched, not started"),
  tail: t("tail"),
  "launch not recorded": t("launch not recorded"),
};

/** A class of time in the language of the page. */
export function className(name: string): string {
  return NAMES[name] ?? name;
}
