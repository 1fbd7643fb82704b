/** Text that is typed now and counts 80 ms after the last key. */

import { useEffect, useRef, useState } from "preact/hooks";

const DEBOUNCE_MS = 80;

/** `value` is what counts; `commit` is called when the typed text differs for long enough. */
export function useDebounced(
  value: string,
  commit: (text: string) => void,
): [text: string, setText: (text: string) => void] {
  const [text, setText] = useState(value);
  const committed = useRef(value);
  const latestCommit = useRef(commit);
  latestCommit.current = commit;

  useEffect(() => {
    // Changed from outside: a chip removed, back in the history.
    if (value === committed.current) return;
    committed.current = value;
    setText(value);
  }, [value]);

  useEffect(() => {
    if (text === committed.current) return;
    const timer = window.setTimeout(() => {
      committed.current = text;
      latestCommit.current(text);
    }, DEBOUNCE_MS);
    return () => window.clearTimeout(timer);
  }, [text]);

  return [text, setText];
}
