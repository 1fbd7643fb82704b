/** The keys of a tree table: arrows move, open and close; Enter and Space do what a click does. */

function rowsOf(body: HTMLElement): readonly HTMLElement[] {
  return [...body.querySelectorAll<HTMLElement>("tr[aria-level]")];
}

/** The nearest row above that is one level up. */
function parentOf(rows: readonly HTMLElement[], index: number): HTMLElement | undefined {
  const level = Number(rows[index]?.getAttribute("aria-level"));
  return rows.slice(0, index).findLast((row) => Number(row.getAttribute("aria-level")) < level);
}

/** What a key does in the focused row; null when it is not one of the tree's. */
export function keyAction(
  event: KeyboardEvent,
  body: HTMLElement | null,
  toggle: (name: string) => void,
): (() => void) | null {
  const row = event.target;
  if (body === null || !(row instanceof HTMLElement) || row.tagName !== "TR") return null;
  const rows = rowsOf(body);
  const index = rows.indexOf(row);
  const expanded = row.getAttribute("aria-expanded");
  const name = row.dataset.name ?? "";
  const move = (to: HTMLElement | undefined) => () => to?.focus();
  switch (event.key) {
    case "ArrowDown":
      return move(rows[index + 1]);
    case "ArrowUp":
      return move(rows[index - 1]);
    case "Home":
      return move(rows[0]);
    case "End":
      return move(rows.at(-1));
    case "ArrowRight":
      if (expanded === "false") return () => toggle(name);
      return expanded === "true" ? move(rows[index + 1]) : null;
    case "ArrowLeft":
      return expanded === "true" ? () => toggle(name) : move(parentOf(rows, index));
    case "Enter":
    case " ":
      return () => row.click();
    default:
      return null;
  }
}
