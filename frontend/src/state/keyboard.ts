/** Keys that work anywhere on the page: `/`, `?`, `g` and a letter, `t`. Ignored while typing. */

import { useEffect, useRef } from "preact/hooks";

const CHORD_MS = 2_000;

export interface Shortcuts {
  /** Letter after `g` -> what it opens. */
  readonly go: Readonly<Record<string, () => void>>;
  readonly keys: Readonly<Record<string, () => void>>;
}

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

function hasModifier(event: KeyboardEvent): boolean {
  return event.ctrlKey || event.metaKey || event.altKey;
}

function isForSomeoneElse(event: KeyboardEvent): boolean {
  if (event.defaultPrevented || hasModifier(event) || isTyping(event.target)) return true;
  return document.querySelector("dialog[open]") !== null;
}

export function useShortcuts(shortcuts: Shortcuts): void {
  // Outlives the effect: the first of two keys must survive a rendering between them.
  const chordUntil = useRef(0);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (isForSomeoneElse(event)) return;
      const isChord = event.timeStamp < chordUntil.current;
      chordUntil.current = event.key === "g" && !isChord ? event.timeStamp + CHORD_MS : 0;
      const action = isChord ? shortcuts.go[event.key] : shortcuts.keys[event.key];
      if (action === undefined) return;
      event.preventDefault();
      action();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [shortcuts]);
}

/** Puts the cursor into the search of the first table on the page; false: there is none. */
export function focusSearch(): boolean {
  const field = document.querySelector<HTMLInputElement>("[data-search]");
  field?.focus();
  field?.select();
  return field !== null;
}

/** Calls `open` for ctrl-k or cmd-k, also while typing, but not above an open dialog. */
export function useSearchKey(open: () => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isKey = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
      if (!isKey || event.altKey || event.shiftKey) return;
      event.preventDefault();
      if (document.querySelector("dialog[open]") === null) open();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [open]);
}
