/**
 * The words of another language, loaded only by those who read it.
 *
 * Code uses them as soon as it runs, so all that imports this waits. A report in one file, which
 * cannot load anything, has `report/translations.ts` instead.
 */

import { language } from "./language";

export const translations: Readonly<Record<string, string>> | null =
  language === "zh" ? (await import("./zh")).zh : null;
