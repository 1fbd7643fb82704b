/** The pages of docs/views, one for each view: part of the build, loaded when one is opened. */

import type { Language } from "../i18n";

const PAGES = import.meta.glob<string>(
  ["../../../docs/views/*.md", "../../../docs/views/zh/*.md"],
  { import: "default" },
);

/** The text of a page in a language, else in English; null when there is none of that name. */
export function loadPage(name: string, language: Language = "en"): Promise<string> | null {
  const folder = language === "en" ? "" : `${language}/`;
  const load =
    PAGES[`../../../docs/views/${folder}${name}.md`] ?? PAGES[`../../../docs/views/${name}.md`];
  return load === undefined ? null : load();
}
