/** localStorage that may be turned off: reading then gives null and writing does nothing. */

const PREFIX = "dlprof.";

export function readStored(key: string): string | null {
  try {
    return window.localStorage.getItem(PREFIX + key);
  } catch {
    return null;
  }
}

export function writeStored(key: string, value: string | null): void {
  try {
    if (value === null) window.localStorage.removeItem(PREFIX + key);
    else window.localStorage.setItem(PREFIX + key, value);
  } catch {
    // Turned off or full: the choice then lasts as long as the page.
  }
}
