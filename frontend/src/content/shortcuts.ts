/** The keys that the help dialog lists. */

export interface ShortcutHelp {
  readonly keys: readonly string[];
  readonly does: string;
}

export const GENERAL_SHORTCUTS: readonly ShortcutHelp[] = [
  { keys: ["/"], does: "Search" },
  { keys: ["?"], does: "Show this help" },
  { keys: ["["], does: "Fold or unfold the navigation" },
  { keys: ["t"], does: "Switch between light and dark" },
  { keys: ["Esc"], does: "Close the dialog or pane, or go back to the table above" },
];

export const TABLE_SHORTCUTS: readonly ShortcutHelp[] = [
  { keys: ["↑", "↓"], does: "Move from row to row" },
  { keys: ["Home", "End"], does: "First or last row of the page" },
  { keys: ["PgUp", "PgDn"], does: "Previous or next page" },
  { keys: ["Enter"], does: "Select the row and go to the table that it fills" },
  { keys: ["Space"], does: "Select the row" },
];
