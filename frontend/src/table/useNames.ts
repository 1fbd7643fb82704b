/** Short texts for the names of the rows on a page, as wide as their columns are drawn. */

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type ShortNames, shortNames } from "../lib/names";
import type { Column } from "./spec";

/** Width of a letter of the monospace face at 12 px, and of the edges of a cell. Unit: px. */
const LETTER = 7.23;
const EDGES = 30;

export type NamesByColumn = ReadonlyMap<string, ShortNames>;

/** The texts by column, and the table whose columns are measured. */
export function useNames<Row>(columns: readonly Column<Row>[], rows: readonly Row[]) {
  const table = useRef<HTMLTableElement>(null);
  const [widths, setWidths] = useState("");
  const keys = columns.map((column) => column.key).join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: other columns have other widths
  useLayoutEffect(() => {
    const element = table.current;
    if (element === null) return;
    const measure = () => {
      const heads = [...element.querySelectorAll<HTMLElement>("thead tr:first-child > th")];
      const letters = heads.map((head) => Math.floor((head.clientWidth - EDGES) / LETTER));
      setWidths(letters.join(" "));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, [keys]);
  const names: NamesByColumn = useMemo(() => {
    const letters = widths.split(" ").map(Number);
    return new Map(
      columns.flatMap((column, place) => {
        if (column.isName !== true) return [];
        const shown = rows
          .map((row) => column.plain(row))
          .filter((name) => typeof name === "string");
        return [[column.key, shortNames(shown, Math.max(letters[place] || 40, 4))] as const];
      }),
    );
  }, [columns, rows, widths]);
  return { table, names };
}
