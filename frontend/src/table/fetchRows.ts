/** All rows of a list, page after page, up to a limit. */

import { getJson } from "../api/client";
import type { ListPage } from "../api/lists";

/** Most rows that are fetched at once for the clipboard, the printer or a drawing. */
export const FETCH_LIMIT = 5_000;
const PAGE_ROWS = 200;

export interface Fetched<Row> {
  readonly rows: readonly Row[];
  /** Rows that fit the filters; more than `rows` when there are more than the limit. */
  readonly count: number;
}

/** The rows in the order of the list, at most `FETCH_LIMIT`. */
export async function fetchRows<Row>(
  listUrl: (page: number, pageSize: number) => string,
): Promise<Fetched<Row>> {
  const rows: Row[] = [];
  let count = 0;
  for (let page = 1; rows.length < FETCH_LIMIT; page += 1) {
    const answer = await getJson<ListPage<Row>>(listUrl(page, PAGE_ROWS));
    count = answer.count;
    rows.push(...answer.results);
    if (page * PAGE_ROWS >= count) break;
  }
  return { rows: rows.slice(0, FETCH_LIMIT), count };
}
