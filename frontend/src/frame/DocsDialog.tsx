/** A page of the documentation, which the build makes HTML of, over the view that it is about. */

import { useEffect, useState } from "preact/hooks";
import { type Language, language, t } from "../i18n";
import { Dialog } from "../ui/Dialog";
import { Empty, Skeleton } from "../ui/states";

export function DocsDialog(props: { page: string; title: string; onClose: () => void }) {
  const { page, title, onClose } = props;
  const [html, setHtml] = useState<string | null>(null);
  useEffect(() => {
    void (loadPage(page, language) ?? Promise.resolve("")).catch(() => "").then(setHtml);
  }, [page]);
  return (
    <Dialog title={title} size="large" isText onClose={onClose}>
      {html === null && <Skeleton lines={10} />}
      {html === "" && <Empty title={t("This page cannot be loaded")} />}
      {html && <article class="docs" lang={language} dangerouslySetInnerHTML={{ __html: html }} />}
    </Dialog>
  );
}

/** The pages of docs/views, one for each view: each is loaded when it is opened. */
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
