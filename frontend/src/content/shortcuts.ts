/** The keys that the help dialog lists. */

import { t } from "../i18n";

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
