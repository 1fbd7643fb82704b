/** The tree of groups: which are open, as text for the address, and what keys do in it. */

const SEPARATOR = "|";

/** Open at first: the root. */
export const OPEN_AT_FIRST: ReadonlySet<string> = new Set(["/"]);

/** "none": the reader has closed all. */
const ALL_CLOSED = "none";

export function readOpen(text: string | undefined): ReadonlySet<string> {
  if (text === undefined) return OPEN_AT_FIRST;
  if (text === ALL_CLOSED) return new Set();
  return new Set(text.split(SEPARATOR).map((name) => name.replaceAll("%7C", SEPARATOR)));
}

export function writeOpen(open: ReadonlySet<string>): string | null {
  if (open.size === 0) return ALL_CLOSED;
  if (open.size === OPEN_AT_FIRST.size && open.has("/")) return null;
  return [...open].map((name) => name.replaceAll(SEPARATOR, "%7C")).join(SEPARATOR);
}

/** A group and all that contain it. */
export function openPathOf(name: string): ReadonlySet<string> {
  const open = new Set<string>();
  for (let end = name.indexOf("/"); end !== -1; end = name.indexOf("/", end + 1)) {
    open.add(name.slice(0, end + 1));
  }
  return open;
}

/** Closing a group closes what is below it too: nothing that is not seen stays in the address. */
export function toggled(open: ReadonlySet<string>, name: string): ReadonlySet<string> {
  if (!open.has(name)) return new Set([...open, name]);
  return new Set([...open].filter((other) => !other.startsWith(name)));
}

/** The filters that give the rows right below a group; without one, the top of the tree. */
export function levelParams(parent: { name: string; level: number | null } | null) {
  const level = (parent?.level ?? 0) + 1;
  return {
    level__gte: level,
    level__lte: level,
    ...(parent === null ? {} : { name__startswith: parent.name }),
  };
}

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
