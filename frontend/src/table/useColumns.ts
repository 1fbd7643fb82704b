/** Which columns a table shows; remembered in the browser. */

import { useMemo, useState } from "preact/hooks";
import { readStored, writeStored } from "../state/storage";
import type { Column, TableSpec } from "./spec";

export interface ColumnChoice<Row> {
  readonly shown: readonly Column<Row>[];
  readonly isShown: (key: string) => boolean;
  readonly toggle: (key: string) => void;
  readonly reset: () => void;
}

type Columns<Row> = Pick<TableSpec<Row>, "id" | "columns">;

function hiddenAtFirst<Row>(spec: Columns<Row>): readonly string[] {
  return spec.columns.filter((column) => column.isHiddenAtFirst).map((column) => column.key);
}

function readHidden<Row>(spec: Columns<Row>): ReadonlySet<string> {
  const stored = readStored(`columns.${spec.id}`);
  const known = new Set(spec.columns.map((column) => column.key));
  const keys = stored === null ? hiddenAtFirst(spec) : stored.split(",");
  return new Set(keys.filter((key) => known.has(key)));
}

/** The first column names the row: it always stays. */
export function useColumns<Row>(spec: Columns<Row>): ColumnChoice<Row> {
  const [hidden, setHidden] = useState(() => readHidden(spec));
  const keep = (next: ReadonlySet<string>) => {
    writeStored(`columns.${spec.id}`, [...next].join(","));
    setHidden(next);
  };
  const shown = useMemo(
    () => spec.columns.filter((column) => !hidden.has(column.key)),
    [spec, hidden],
  );
  return {
    shown,
    isShown: (key) => !hidden.has(key),
    toggle: (key) => {
      const next = new Set(hidden);
      if (!next.delete(key)) next.add(key);
      keep(next);
    },
    reset: () => {
      writeStored(`columns.${spec.id}`, null);
      setHidden(new Set(hiddenAtFirst(spec)));
    },
  };
}
