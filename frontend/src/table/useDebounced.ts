/** Text that is typed now and counts 80 ms after the last key. */

import { useEffect, useRef, useState } from "preact/hooks";

const DEBOUNCE_MS = 80;

/** `value` is what counts; `commit` is called when the typed text differs for long enough. */
export function useDebounced(
  value: string,
  commit: (text: string) => void,
  delayMs = DEBOUNCE_MS,
): [text: string, type: (text: string) => void] {
  const [text, setText] = useState(value);
  const committed = useRef(value);
  const latestCommit = useRef(commit);
  const timer = useRef(0);
  latestCommit.current = commit;

  useEffect(() => {
    // Changed from outside: a chip removed, back in the history.
    if (value === committed.current) return;
    window.clearTimeout(timer.current);
    committed.current = value;
    setText(value);
  }, [value]);

  useEffect(() => () => window.clearTimeout(timer.current), []);

  // Not in an effect: that of a busy page may run after the time of the key before is up.
  function type(next: string): void {
    setText(next);
    window.clearTimeout(timer.current);
    if (next === committed.current) return;
    timer.current = window.setTimeout(() => {
      committed.current = next;
      latestCommit.current(next);
    }, delayMs);
  }

  return [text, type];
}
