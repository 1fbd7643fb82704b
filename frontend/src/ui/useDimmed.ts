/** Dims what waits for newer data, unless that comes at once. */

import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

const PATIENCE_MS = 150;

/** Goes to the element, whose content is not drawn again for it. */
export function useDimmed<Type extends HTMLElement>(isStale: boolean): RefObject<Type | null> {
  const element = useRef<Type>(null);
  useEffect(() => {
    if (!isStale) return;
    const shown = element.current?.classList;
    const timer = setTimeout(() => shown?.add("is-dimmed"), PATIENCE_MS);
    return () => {
      clearTimeout(timer);
      shown?.remove("is-dimmed");
    };
  }, [isStale]);
  return element;
}
