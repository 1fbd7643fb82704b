/** The header of a table: a sort button per column and, on demand, a row of typed filters. */

import type { JSX } from "preact";
import { FilterCell } from "./FilterCell";
import { nextSort, sortDirection } from "./model";
import type { Column } from "./spec";
import type { TableControl } from "./useTableState";

export interface TableHeaderProps<Row> {
  readonly columns: readonly Column<Row>[];
  readonly control: TableControl;
  readonly hasFilters: boolean;
  /** Address of the different values of a column. */
  readonly distinctUrl: (column: string) => string;
}

/** Room for the two bounds of a number. Unit: px. */
const RANGE_WIDTH = 150;

function widthOf<Row>(column: Column<Row>, hasFilters: boolean): number {
  const hasRange = hasFilters && column.kind === "number" && column.isFilterable !== false;
  return hasRange ? Math.max(column.width, RANGE_WIDTH) : column.width;
}

/** Least width of a table; on a phone the style sheet limits the column of the names. */
export function tableWidth<Row>(columns: readonly Column<Row>[], hasFilters: boolean): string {
  const widths = columns.filter((one) => !one.isWide).map((one) => widthOf(one, hasFilters));
  const sum = widths.reduce((before, width) => before + width, 0);
  const wide = columns.find((column) => column.isWide);
  return wide === undefined
    ? `${sum}px`
    : `calc(${sum}px + min(${wide.width}px, var(--name-width)))`;
}

export function TableHeader<Row>(props: TableHeaderProps<Row>): JSX.Element {
  const { columns, control, hasFilters } = props;
  return (
    <>
      <colgroup>
        {columns.map((column) => (
          <col
            key={column.key}
            style={column.isWide ? undefined : { width: `${widthOf(column, hasFilters)}px` }}
          />
        ))}
      </colgroup>
      <thead>
        <tr>
          {columns.map((column) => (
            <HeaderCell key={column.key} column={column} control={control} />
          ))}
        </tr>
        {hasFilters && (
          <tr class="filter-row">
            {columns.map((column) => (
              <td key={column.key}>
                {column.isFilterable !== false && (
                  <FilterCell column={column} control={control} distinctUrl={props.distinctUrl} />
                )}
              </td>
            ))}
          </tr>
        )}
      </thead>
    </>
  );
}

function HeaderCell<Row>({
  column,
  control,
}: {
  column: Column<Row>;
  control: TableControl;
}): JSX.Element {
  const { state, change } = control;
  const direction = sortDirection(state.sort, column.key);
  const face = (
    <>
      <span class="th-title">{column.title}</span>
      {column.unit !== undefined && <span class="th-unit">{column.unit}</span>}
    </>
  );
  const align = `align-${column.align ?? "left"}`;
  if (column.isSortable === false) {
    return (
      <th scope="col" class={align} title={column.hint}>
        <span class="th-plain">{face}</span>
      </th>
    );
  }
  return (
    <th scope="col" class={align} aria-sort={direction ?? "none"}>
      <button
        type="button"
        class={`th-button ${direction === null ? "" : "is-sorted"}`}
        title={column.hint}
        onClick={() => change({ ...state, sort: nextSort(state.sort, column), page: 1 })}
      >
        {face}
        <span class="th-arrow" aria-hidden="true">
          {direction === "ascending" ? "↑" : "↓"}
        </span>
      </button>
    </th>
  );
}
