/** The page of a report in one file: the viewer's, answered out of the file. */

import { render } from "preact";
import { answerFrom } from "../api/source";
import { App } from "../app";
import { language, t } from "../i18n";
import type { LocalizedData, ReportData } from "./format";
import { ReportSource } from "./source";
import { unpackElement } from "./unpack";
import "../styles/index.css";

const FORMAT = 1;

async function start(root: HTMLElement): Promise<void> {
  const data = await unpackElement<ReportData>("dlprof-report");
  if (data.format !== FORMAT) throw new Error(`format ${data.format}`);
  const localized = await unpackElement<LocalizedData>(`dlprof-said-${language}`);
  const source = new ReportSource(data, localized, unpackElement);
  answerFrom((url) => source.answer(url));
  // What stood there while the file was read.
  root.replaceChildren();
  render(<App />, root);
}

document.documentElement.lang = language;
const root = document.getElementById("app");
if (root !== null) {
  start(root).catch((reason: unknown) => {
    root.textContent = t(
      "The report cannot be read: the file is damaged, or this browser is too old. ({reason})",
      { reason: reason instanceof Error ? reason.message : String(reason) },
    );
  });
}
