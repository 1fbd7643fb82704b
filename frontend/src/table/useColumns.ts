/** Which columns a table shows: chosen in the address, else remembered in the browser. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { useScale } from "../lib/perStep";
import { currentQuery, navigate, useQuery } from "../state/location";
import { readStored, writeStored } from "../state/storage";
import { scaledColumns } from "./columns";
import type { Column, TableSpec } from "./spec";

export interface ColumnChoice<Row> {
  /** All columns, with their sums per step or in total. */
  readonly all: readonly Column<Row>[];
  readonly shown: readonly Column<Row>[];
  /** Chosen columns that are left out because no row has a value. */
  readonly empty: readonly Column<Row>[];
  readonly showEmpty: () => void;
  readonly isShown: (key: string) => boolean;
  readonly toggle: (key: string) => void;
  readonly reset: () => void;
}

type Columns<Row> = Pick<TableSpec<Row>, "id" | "columns">;

export interface ColumnOptions<Row> {
  /** False for a table inside of a dialog, which has no address. */
  readonly isInAddress?: boolean;
  /** The rows of the page; columns without a value in them are left out. */
  readonly rows?: readonly Row[];
  /** Columns that stay without a value: the order or a filter depends on them. */
  readonly used?: (key: string) => boolean;
}

function chosenAtFirst<Row>(spec: Columns<Row>): readonly string[] {
  return spec.columns.filter((column) => !column.isHiddenAtFirst).map((column) => column.key);
}

/** Keys that were hidden, as the browser remembers them; null: nothing was chosen. */
function storedChoice<Row>(spec: Columns<Row>): string | null {
  const stored = readStored(`columns.${spec.id}`);
  if (stored === null) return null;
  const hidden = new Set(stored.split(","));
  const keys = spec.columns.map((column) => column.key);
  return keys.filter((key) => !hidden.has(key)).join(",");
}

/** The first column names the row: it always stays. */
export function useColumns<Row>(
  spec: Columns<Row>,
  { isInAddress = true, rows = [], used = () => false }: ColumnOptions<Row> = {},
): ColumnChoice<Row> {
  const query = useQuery();
  const { isPerStep, steps } = useScale();
  const all = useMemo(
    () => scaledColumns(spec.columns, { isPerStep, steps }),
    [spec, isPerStep, steps],
  );
  const [own, setOwn] = useState(() => storedChoice(spec));
  const chosen = (isInAddress ? query.get(`${spec.id}.cols`) : undefined) ?? own;
  useLinkedChoice(spec.id, isInAddress ? own : null);
  const keep = (next: readonly string[] | null) => {
    const isKept = (key: string) => next?.includes(key) ?? true;
    const hidden = spec.columns.map((column) => column.key).filter((key) => !isKept(key));
    writeStored(`columns.${spec.id}`, next === null ? null : hidden.join(","));
    const text = next?.join(",") ?? null;
    setOwn(text);
    if (isInAddress) navigate({ [`${spec.id}.cols`]: text }, { replace: true });
  };
  const wanted = useMemo(() => {
    const keys = new Set(chosen === null ? chosenAtFirst(spec) : chosen.split(","));
    return all.filter((column, index) => index === 0 || keys.has(column.key));
  }, [spec, all, chosen]);
  const [areEmptyShown, setEmptyShown] = useState(false);
  const withValues = useKeysWithValues(spec, rows);
  const isEmpty = (column: Column<Row>, index: number) =>
    index > 0 && rows.length > 0 && !withValues.has(column.key) && !used(column.key);
  const empty = areEmptyShown ? [] : wanted.filter(isEmpty);
  const keys = wanted.map((column) => column.key);
  const left = empty.map((column) => column.key).join(",");
  const shown = useMemo(() => {
    const hidden = new Set(left.split(","));
    return left === "" ? wanted : wanted.filter((column) => !hidden.has(column.key));
  }, [wanted, left]);
  return {
    all,
    shown,
    empty,
    showEmpty: () => setEmptyShown(true),
    isShown: (key) => keys.includes(key),
    toggle: (key) => {
      const isOn = keys.includes(key);
      // A column that was asked for is shown, whether or not it has values.
      if (!isOn) setEmptyShown(true);
      keep(isOn ? keys.filter((one) => one !== key) : [...keys, key]);
    },
    reset: () => {
      setEmptyShown(false);
      keep(null);
    },
  };
}

/** Writes a choice that the browser remembers into the address, so that a link carries it. */
function useLinkedChoice(id: string, text: string | null): void {
  useEffect(() => {
    if (text === null || currentQuery().has(`${id}.cols`)) return;
    navigate({ [`${id}.cols`]: text }, { replace: true });
  }, [id, text]);
}

/** The columns that had a value on a page of this table so far: paging must not move columns. */
function useKeysWithValues<Row>(spec: Columns<Row>, rows: readonly Row[]): ReadonlySet<string> {
  const [seen] = useState(() => new Set<string>());
  return useMemo(() => {
    for (const column of spec.columns) {
      if (seen.has(column.key)) continue;
      const hasValue = (row: Row) => {
        const value = column.plain(row);
        return value !== null && value !== undefined && value !== "";
      };
      if (rows.some(hasValue)) seen.add(column.key);
    }
    return seen;
  }, [spec, rows, seen]);
}
