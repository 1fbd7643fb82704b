/** Tables that fill each other: what selecting a row does to the address and to the focus. */

import { currentQuery, navigate } from "../state/location";
import { patchForView } from "../state/query";

/**
 * Selects a row; the tables that depend on it are reset.
 *
 * `tables` are the ids of the dependent tables: their pages, sorts and filters belonged to the row
 * selected before.
 */
export function selectRow(
  patch: Readonly<Record<string, string | null>>,
  tables: readonly string[],
): void {
  const change: Record<string, string | null> = {};
  for (const key of currentQuery().keys()) {
    if (tables.some((table) => key.startsWith(`${table}.`))) change[key] = null;
  }
  navigate({ ...change, ...patch });
}

const FOCUS_POLL_MS = 50;
/** Rows that take longer than this may no longer take the focus. */
const FOCUS_LIMIT_MS = 30_000;

/**
 * Moves the focus to the row that Tab would reach in a table, as soon as it has rows; not when the
 * reader has gone elsewhere meanwhile.
 */
export function focusRows(bodyId: string): void {
  const before = document.activeElement;
  const until = performance.now() + FOCUS_LIMIT_MS;
  const look = () => {
    const now = document.activeElement;
    if (now !== before && now !== document.body) return;
    const row = document.querySelector<HTMLElement>(`#${bodyId} tr[tabindex="0"]`);
    if (row !== null) row.focus();
    else if (performance.now() < until) window.setTimeout(look, FOCUS_POLL_MS);
  };
  look();
}

/** After a selection has been drawn. */
export function focusRowsSoon(bodyId: string): void {
  window.setTimeout(() => focusRows(bodyId), 0);
}

/** The op in the view of ops and kernels. */
export function openOp(opId: string): void {
  navigate({ ...patchForView(currentQuery(), "ops"), op: opId });
}
