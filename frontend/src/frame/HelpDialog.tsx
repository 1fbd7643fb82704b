/** The help dialog: keys, and what runs here. */

import { apiUrl } from "../api/client";
import { isReport } from "../api/source";
import { t } from "../i18n";
import { currentQuery } from "../state/location";
import { useScope } from "../state/scope";
import { Dialog } from "../ui/Dialog";
import { viewsOf } from "../views/registry";
import { feedbackHref } from "./TopBar";

export function HelpDialog({ version, onClose }: { version: string | null; onClose: () => void }) {
  const go = viewsOf(useScope()).map((view) => ({
    keys: ["g", view.letter],
    does: view.title,
  }));
  const feedback = feedbackHref(currentQuery().get("view") ?? "dashboard", version);
  return (
    <Dialog title={t("Help")} onClose={onClose}>
      <div class="help">
        <KeyList title={t("Anywhere")} shortcuts={GENERAL_SHORTCUTS} />
        <KeyList title={t("Go to")} shortcuts={go} />
        <KeyList title={t("In a table")} shortcuts={TABLE_SHORTCUTS} />
        <KeyList title={t("In the chart of the iterations")} shortcuts={CHART_SHORTCUTS} />
        <p class="help-note">
          {isReport()
            ? t("This report is a single file that can be sent as it is.")
            : t(
                "The address contains the state of the page: bookmark it, or send it to anyone who can reach this server.",
              )}
          {version !== null && ` ${t("Version {version}.", { version })}`}{" "}
          {!isReport() && (
            <>
              {t("The REST API behind this page is described at")}{" "}
              <a href={apiUrl("schema/")}>/api/v1/schema/</a>.
            </>
          )}{" "}
          {feedback !== null && (
            <a href={feedback} target="_blank" rel="noopener noreferrer">
              {t("Send feedback")}
            </a>
          )}
        </p>
      </div>
    </Dialog>
  );
}

function KeyList({ title, shortcuts }: { title: string; shortcuts: readonly ShortcutHelp[] }) {
  return (
    <section>
      <h3>{title}</h3>
      <dl class="keys">
        {shortcuts.map((shortcut) => (
          <div key={shortcut.does}>
            <dt>
              {shortcut.keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{shortcut.does}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

export interface ShortcutHelp {
  readonly keys: readonly string[];
  readonly does: string;
}

export const GENERAL_SHORTCUTS: readonly ShortcutHelp[] = [
  { keys: ["/"], does: t("Search") },
  { keys: ["Ctrl+K"], does: t("Search everywhere") },
  { keys: ["?"], does: t("Show this help") },
  { keys: ["["], does: t("Fold or unfold the navigation") },
  { keys: ["t"], does: t("Switch between light and dark") },
  { keys: ["Esc"], does: t("Close the dialog or pane, or go back to the table above") },
];

export const CHART_SHORTCUTS: readonly ShortcutHelp[] = [
  { keys: ["←", "→"], does: t("Read the bars") },
  { keys: ["+", "-"], does: t("Show fewer or more iterations") },
  { keys: ["Shift+←", "Shift+→"], does: t("Earlier or later iterations") },
];

export const TABLE_SHORTCUTS: readonly ShortcutHelp[] = [
  { keys: ["↑", "↓"], does: t("Move from row to row") },
  { keys: ["Home", "End"], does: t("First or last row of the page") },
  { keys: ["PgUp", "PgDn"], does: t("Previous or next page") },
  { keys: ["Enter"], does: t("Select the row and go to the table below it") },
  { keys: ["Shift+Enter"], does: t("Open the page of the row's op or kernel") },
  { keys: ["Space"], does: t("Select the row") },
  { keys: ["Alt+←", "Alt+→"], does: t("Make the column of the focused header narrower or wider") },
];
