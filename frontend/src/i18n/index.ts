/**
 * The words of the interface in the reader's language.
 *
 * The code contains the English sentences; `zh.ts` has their Chinese translations. A sentence
 * without a translation does not compile.
 */

import { readStored, writeStored } from "../state/storage";
import { zh } from "./zh";

export type Language = "en" | "zh";

/** Every sentence of the interface. */
export type Message = keyof typeof zh;

export type Values = Readonly<Record<string, string | number>>;

export const LANGUAGES: readonly { readonly id: Language; readonly name: string }[] = [
  { id: "en", name: "English" },
  { id: "zh", name: "中文" },
];

const STORED = "language";

function known(text: string | null | undefined): Language | null {
  return LANGUAGES.find((item) => item.id === text)?.id ?? null;
}

/** The language in the address, else the one chosen before, else the one the browser prefers. */
export function pickLanguage(
  asked: string | null,
  stored: string | null,
  preferred: readonly string[],
): Language {
  const fromBrowser = preferred.map((tag) => known(tag.slice(0, 2).toLowerCase()));
  return known(asked) ?? known(stored) ?? fromBrowser.find((item) => item !== null) ?? "en";
}

function startLanguage(): Language {
  if (typeof window === "undefined") return "en";
  const asked = new URLSearchParams(window.location.search).get("lang");
  if (known(asked) !== null) writeStored(STORED, asked);
  return pickLanguage(asked, readStored(STORED), navigator.languages);
}

/** Fixed until the page is loaded again: choosing another language reloads the page in the same state. */
export const language: Language = startLanguage();

/** Puts values into the {holes} of a sentence. */
export function fill(text: string, values: Values): string {
  return text.replace(/\{(\w+)\}/g, (hole, name: string) => String(values[name] ?? hole));
}

/** A sentence in the reader's language. */
export function t(message: Message, values: Values = {}): string {
  return fill(language === "zh" ? zh[message] : message, values);
}

/** Keeps the choice and loads the page in it; all that is shown is in the address. */
export function chooseLanguage(next: Language): void {
  writeStored(STORED, next);
  const url = new URL(window.location.href);
  if (url.searchParams.has("lang")) url.searchParams.set("lang", next);
  if (url.href === window.location.href) window.location.reload();
  else window.location.replace(url.href);
}
