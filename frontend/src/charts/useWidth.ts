/** The width of an element, which panes at the sides change. Unit: pixels. */

import { useLayoutEffect, useState } from "preact/hooks";

export function useWidth(holder: { readonly current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = holder.current;
    if (element === null) return;
    const measure = () => setWidth(element.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [holder]);
  return width;
}
