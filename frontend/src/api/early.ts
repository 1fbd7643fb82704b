/** Answers that public/early.js asked for while the program was loading; each is used once. */

declare global {
  interface Window {
    dlprofEarly?: Map<string, Promise<unknown>>;
  }
}

/** The early answer at an address; null: none was asked for. */
export function takeEarly(url: string): Promise<unknown> | null {
  const answers = typeof window === "undefined" ? undefined : window.dlprofEarly;
  const answer = answers?.get(url) ?? null;
  answers?.delete(url);
  return answer;
}
