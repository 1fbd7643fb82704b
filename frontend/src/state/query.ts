/** The query string as the one place where the state of the page lives. Pure functions only. */

export type Query = ReadonlyMap<string, string>;

/** A change to the query string; null or "" takes the parameter away. */
export type QueryPatch = Readonly<Record<string, string | null>>;

/** What names the data comes first, so that links read the same way. */
const LEADING = ["profile", "view", "aggregation", "domain", "per"];

export function parseQuery(search: string): Query {
  const query = new Map(new URLSearchParams(search));
  // Links once said `per=op` for a row per op; `per` is the scale of sums now.
  if (query.get("per") === "op") {
    query.delete("per");
    query.set("rows", "op");
  }
  return query;
}

export function applyPatch(query: Query, patch: QueryPatch): Query {
  const next = new Map(query);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || value === "") next.delete(key);
    else next.set(key, value);
  }
  return next;
}

function rank(key: string): number {
  const index = LEADING.indexOf(key);
  return index === -1 ? LEADING.length : index;
}

/** "?profile=1&view=ops&..." with a stable order; "" without parameters. */
export function formatQuery(query: Query): string {
  const sorted = [...query].sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1));
  const text = new URLSearchParams(sorted).toString().replaceAll("%2C", ",").replaceAll("%2F", "/");
  return text === "" ? "" : `?${text}`;
}

/** Parameters of a view go when the view changes; what names the data stays. */
export function patchForView(query: Query, view: string): QueryPatch {
  const patch: Record<string, string | null> = {};
  for (const key of query.keys()) if (!LEADING.includes(key)) patch[key] = null;
  patch.view = view;
  return patch;
}

/** The view and the data that it shows. */
export function viewKey(query: Query): string {
  return LEADING.map((key) => query.get(key) ?? (key === "view" ? "dashboard" : "")).join("\n");
}

/** The parameters of the view itself; those of a dialog above it are none. */
export function viewParams(query: Query): QueryPatch {
  return Object.fromEntries([...query].filter(([key]) => !LEADING.includes(key) && key !== "docs"));
}

export function parseIndexRange(text: string | undefined): readonly [number, number] | null {
  const match = /^(\d+)-(\d+)$/.exec(text ?? "");
  if (match === null) return null;
  const first = Number(match[1]);
  const last = Number(match[2]);
  return first <= last ? [first, last] : null;
}
