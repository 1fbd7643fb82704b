/** The address bar as a store: components read the query and navigate; back and reload just work. */

import { useEffect, useState } from "preact/hooks";
import { PREFIX } from "../api/client";
import { isReport } from "../api/source";
import {
  applyPatch,
  formatQuery,
  parseQuery,
  patchForView,
  type Query,
  type QueryPatch,
  viewKey,
  viewParams,
} from "./query";

const NAVIGATED = "dlprof:navigated";

/**
 * The query string where the address cannot be written: a report inside of a frame that has no
 * origin of its own, as notebooks and build servers show files. The way back is then missing.
 */
let kept: string | null = null;

/** Whether the address is not that of the page; never so in a report, which is a file. */
export function isOutside(): boolean {
  return !isReport() && window.location.pathname.replace(/\/$/, "") !== PREFIX;
}

/** Goes to the start of the viewer, with nothing chosen. */
export function startOver(): void {
  if (isOutside()) window.location.assign(`${PREFIX}/`);
  else navigate(Object.fromEntries([...currentQuery().keys()].map((key) => [key, null])));
}

function currentSearch(): string {
  return kept ?? window.location.search;
}

function write(url: string, search: string, isReplaced: boolean): void {
  try {
    if (isReplaced) window.history.replaceState(null, "", url);
    else window.history.pushState(null, "", url);
  } catch {
    kept = search;
  }
}

/** What each view showed when it was left, by `viewKey`. */
const left = new Map<string, QueryPatch>();

/** The last address that was parsed: every link of the page begins with it. */
let parsed: { readonly search: string; readonly query: Query } | null = null;

/** The query as it is now, for event handlers. */
export function currentQuery(): Query {
  const search = currentSearch();
  if (parsed?.search !== search) parsed = { search, query: parseQuery(search) };
  return parsed.query;
}

/** The address of this page with a change applied; for links. */
export function hrefWith(patch: QueryPatch, query: Query = currentQuery()): string {
  const search = formatQuery(applyPatch(query, patch));
  return search === "" ? window.location.pathname : search;
}

/** Changes the query. `replace` adds no step to the browser history (for typing, defaults). */
export function navigate(patch: QueryPatch, options: { replace?: boolean } = {}): void {
  const query = currentQuery();
  const search = formatQuery(applyPatch(query, patch));
  if (search === currentSearch()) return;
  left.set(viewKey(query), viewParams(query));
  write(`${window.location.pathname}${search}`, search, options.replace ?? false);
  window.dispatchEvent(new Event(NAVIGATED));
}

/** The change that opens a view as it was left: with its filters, page and selection. */
export function patchToView(view: string): QueryPatch {
  const query = currentQuery();
  if (viewKey(query) === viewKey(applyPatch(query, { view }))) return patchForView(query, view);
  return { ...patchForView(query, view), ...left.get(viewKey(applyPatch(query, { view }))) };
}

/** The query of the current address; the component renders again when it changes. */
export function useQuery(): Query {
  const [query, setQuery] = useState(currentQuery);
  useEffect(() => {
    const update = () => setQuery(currentQuery());
    window.addEventListener("popstate", update);
    window.addEventListener(NAVIGATED, update);
    update();
    return () => {
      window.removeEventListener("popstate", update);
      window.removeEventListener(NAVIGATED, update);
    };
  }, []);
  return query;
}

export function openDocs(): void {
  navigate({ docs: currentQuery().get("view") ?? "dashboard" });
}
