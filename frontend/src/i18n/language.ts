/** The language of the interface. */

import { readStored, writeStored } from "../state/storage";

export type Language = "en" | "zh";

export const LANGUAGES: readonly { readonly id: Language; readonly name: string }[] = [
  { id: "en", name: "English" },
  { id: "zh", name: "中文" },
];

export const STORED = "language";

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
