/** Where answers come from: the server, or, in a report that is one file, the file itself. */

/** Answers an address of the API. */
export type Source = (url: string) => Promise<unknown>;

let source: Source | null = null;

/** From now on this answers, and nothing is asked of a server. */
export function answerFrom(next: Source): void {
  source = next;
}

export function currentSource(): Source | null {
  return source;
}

/** Whether the page is a report: one file, without a server behind it. */
export function isReport(): boolean {
  return source !== null;
}
