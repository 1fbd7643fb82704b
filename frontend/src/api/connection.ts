/** Whether the server answers. While it does not, the page asks on, and then for what it missed. */

import { useEffect, useState } from "preact/hooks";

const ASK_AGAIN_MS = 1_000;

let isLost = false;
let healthUrl = "";
const listeners = new Set<() => void>();

/** Calls `listener` when the server is lost, and when it answers again; returns how to stop that. */
export function onConnection(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function isServerLost(): boolean {
  return isLost;
}

function change(next: boolean): void {
  isLost = next;
  for (const listener of [...listeners]) listener();
}

/** A request had no answer; `url` is where the server says whether it is well. */
export function reportLost(url: string): void {
  if (isLost) return;
  healthUrl = url;
  change(true);
  window.setTimeout(askAgain, ASK_AGAIN_MS);
}

function askAgain(): void {
  fetch(healthUrl).then(
    () => change(false),
    () => window.setTimeout(askAgain, ASK_AGAIN_MS),
  );
}

export function useIsServerLost(): boolean {
  const [isNow, setNow] = useState(isLost);
  useEffect(() => onConnection(() => setNow(isLost)), []);
  return isNow;
}
