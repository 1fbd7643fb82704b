/** The edge of a header that is dragged to make its column wider; double click: as at first. */

import { useRef } from "preact/hooks";
import { t } from "../i18n";
import { withinLimits } from "./useWidths";

interface Drag {
  readonly fromX: number;
  readonly width: number;
  readonly tableWidth: number;
  readonly column: HTMLElement | null;
  readonly table: HTMLTableElement | null;
}

function begun(handle: HTMLElement, fromX: number): Drag | null {
  const cell = handle.closest("th");
  if (cell === null) return null;
  const table = cell.closest("table");
  const column = table?.querySelectorAll("col")[cell.cellIndex] ?? null;
  const tableWidth = table?.offsetWidth ?? 0;
  return { fromX, width: cell.offsetWidth, tableWidth, column, table };
}

function widthAt(drag: Drag, x: number): number {
  return withinLimits(drag.width + x - drag.fromX);
}

/** While it is dragged the element changes alone: nothing is drawn again but the table. */
function follow(drag: Drag, x: number): void {
  const width = widthAt(drag, x);
  if (drag.column !== null) drag.column.style.width = `${width}px`;
  if (drag.table !== null) {
    const whole = `${drag.tableWidth + width - drag.width}px`;
    drag.table.style.width = whole;
    drag.table.style.minWidth = whole;
  }
}

export function ResizeHandle(props: { onResize: (px: number | null) => void }) {
  const drag = useRef<Drag | null>(null);
  return (
    <span
      class="th-resize"
      aria-hidden="true"
      title={t("Drag to resize, double-click to reset")}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.preventDefault();
        event.currentTarget.setPointerCapture(event.pointerId);
        drag.current = begun(event.currentTarget, event.clientX);
      }}
      onPointerMove={(event) => {
        if (drag.current !== null) follow(drag.current, event.clientX);
      }}
      onPointerUp={(event) => {
        const done = drag.current;
        drag.current = null;
        if (done !== null && event.clientX !== done.fromX) {
          props.onResize(widthAt(done, event.clientX));
        }
      }}
      onPointerCancel={() => {
        drag.current = null;
      }}
      onDblClick={() => props.onResize(null)}
    />
  );
}
