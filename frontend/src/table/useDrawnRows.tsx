/** Which rows of a page are elements: those in sight and some below them; the others once they are scrolled to. */

import { useEffect, useRef, useState } from "preact/hooks";

/** Rows drawn at first; a page of fewer is drawn as a whole. */
const FIRST = 16;
/** Rows drawn below the last one in sight. */
const AHEAD = 8;
/** Height of a row, --row in tokens.css. Unit: px. */
const ROW_HEIGHT = 28;

export interface DrawnRows {
  /** The number of rows to draw. */
  readonly drawn: number;
  readonly drawUpTo: (count: number) => void;
  readonly drawAll: () => void;
}

/** `needed`: index of a row that has to be there, such as the selected one. */
export function useDrawnRows(rows: readonly unknown[], needed: number): DrawnRows {
  const [limit, setLimit] = useState<{ readonly of: readonly unknown[]; readonly count: number }>();
  const count = limit?.of === rows ? limit.count : FIRST;
  const drawUpTo = (next: number) => setLimit({ of: rows, count: next });
  const drawAll = () => drawUpTo(Number.POSITIVE_INFINITY);
  useWholePage(drawAll);
  return { drawn: Math.min(rows.length, Math.max(count, needed + 1)), drawUpTo, drawAll };
}

/** The browser searches and prints, and a reader may select, what is drawn: then all rows are. */
function useWholePage(drawAll: () => void): void {
  const latest = useRef(drawAll);
  latest.current = drawAll;
  useEffect(() => {
    const draw = () => latest.current();
    const onKeyDown = (event: KeyboardEvent) => {
      const isOfBrowser = (event.ctrlKey || event.metaKey) && /^[afp]$/i.test(event.key);
      if (isOfBrowser || event.key === "F3") draw();
    };
    window.addEventListener("beforeprint", draw);
    window.addEventListener("keydown", onKeyDown);
    return () => {
      window.removeEventListener("beforeprint", draw);
      window.removeEventListener("keydown", onKeyDown);
    };
  }, []);
}

/** The room of the rows that are not drawn; says how many of them are needed when it is near. */
export function RowsBelow(props: {
  rows: number;
  columns: number;
  onSeen: (rows: number) => void;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const { onSeen } = props;
  // After each drawing: rows that are new may end in sight, where the ones before them did.
  useEffect(() => {
    const element = body.current;
    if (element === null) return;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (entry?.isIntersecting !== true) return;
        const inSight = (entry.rootBounds?.bottom ?? 0) - entry.boundingClientRect.top;
        onSeen(Math.ceil(Math.max(0, inSight) / ROW_HEIGHT) + AHEAD);
      },
      { root: element.closest(".table-scroll"), rootMargin: `0px 0px ${4 * ROW_HEIGHT}px` },
    );
    observer.observe(element);
    return () => observer.disconnect();
  });
  return (
    <tbody ref={body} class="rows-below" aria-hidden="true">
      <tr>
        <td colSpan={props.columns} style={{ height: `${props.rows * ROW_HEIGHT}px` }} />
      </tr>
    </tbody>
  );
}
