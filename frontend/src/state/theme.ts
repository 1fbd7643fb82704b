/** Light or dark. theme-boot.js sets it before the first paint; here it changes. */

import { useEffect, useState } from "preact/hooks";
import { writeStored } from "./storage";

export type Theme = "light" | "dark";

const CHANGED = "dlprof:theme";

export function currentTheme(): Theme {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

export function toggleTheme(): void {
  const theme: Theme = currentTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  writeStored("theme", theme);
  window.dispatchEvent(new Event(CHANGED));
}

export function useTheme(): Theme {
  const [theme, setTheme] = useState(currentTheme);
  useEffect(() => {
    const update = () => setTheme(currentTheme());
    window.addEventListener(CHANGED, update);
    return () => window.removeEventListener(CHANGED, update);
  }, []);
  return theme;
}
