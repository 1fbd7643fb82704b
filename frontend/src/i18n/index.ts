/**
 * The words of the interface in the reader's language.
 *
 * The code contains the English sentences, `aggregator/texts/zh.po` their Chinese translations, from
 * which `zh.ts` is built. A sentence without a translation is shown in English.
 */

import { writeStored } from "../state/storage";
import { type Language, STORED } from "./language";
import { translations } from "./translations";

export { LANGUAGES, type Language, language, pickLanguage } from "./language";

export type Values = Readonly<Record<string, string | number>>;

/** Puts values into the {holes} of a sentence. */
export function fill(text: string, values: Values): string {
  return text.replace(/\{(\w+)\}/g, (hole, name: string) => String(values[name] ?? hole));
}

/** A sentence in the reader's language. */
export function t(message: string, values: Values = {}): string {
  return fill(translations?.[message] ?? message, values);
}

/** Keeps the choice and loads the page in it; all that is shown is in the address. */
export function chooseLanguage(next: Language): void {
  writeStored(STORED, next);
  const url = new URL(window.location.href);
  if (url.searchParams.has("lang")) url.searchParams.set("lang", next);
  if (url.href === window.location.href) window.location.reload();
  else window.location.replace(url.href);
}
