/** The help dialog: keys, and what runs here. */

import { apiUrl } from "../api/client";
import { isReport } from "../api/source";
import {
  CHART_SHORTCUTS,
  GENERAL_SHORTCUTS,
  type ShortcutHelp,
  TABLE_SHORTCUTS,
} from "../content/shortcuts";
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
