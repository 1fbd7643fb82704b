/** Where the state of a table is kept: in the address, or in the page for one inside a dialog. */

import { useCallback, useState } from "preact/hooks";
import { currentQuery, navigate } from "../state/location";
import type { Query } from "../state/query";
import { readStored, writeStored } from "../state/storage";
import {
  PAGE_SIZES,
  readTableState,
  type TableDefaults,
  type TableState,
  tablePatch,
} from "./model";
import type { TableSpec } from "./spec";

/** `replace`: add no step to the browser history (typing, corrections). */
export type ChangeTable = (next: TableState, options?: { replace?: boolean }) => void;

export interface TableControl {
  readonly state: TableState;
  readonly change: ChangeTable;
  readonly isInAddress: boolean;
}

const PAGE_SIZE_KEY = "pageSize";

/** The page size that was chosen last is the default of every table. */
function storedDefaults(defaults: TableDefaults): TableDefaults {
  const stored = Number(readStored(PAGE_SIZE_KEY));
  return PAGE_SIZES.some((size) => size === stored) ? { ...defaults, pageSize: stored } : defaults;
}

export function useUrlTable<Row>(
  spec: Pick<TableSpec<Row>, "id" | "defaults">,
  query: Query,
): TableControl {
  const state = readTableState(query, spec.id, storedDefaults(spec.defaults));
  const change = useCallback<ChangeTable>(
    (next, options) => {
      const defaults = storedDefaults(spec.defaults);
      const before = readTableState(currentQuery(), spec.id, defaults);
      if (next.pageSize !== before.pageSize) writeStored(PAGE_SIZE_KEY, String(next.pageSize));
      navigate(tablePatch(spec.id, before, next, spec.defaults), options);
    },
    [spec],
  );
  return { state, change, isInAddress: true };
}

export function useLocalTable<Row>(spec: TableSpec<Row>): TableControl {
  const [state, setState] = useState<TableState>(() =>
    readTableState(new Map(), spec.id, spec.defaults),
  );
  const change = useCallback<ChangeTable>((next) => setState(next), []);
  return { state, change, isInAddress: false };
}
