/** The header of a table: a sort button per column and, on demand, a row of typed filters. */

import type { ButtonHTMLAttributes } from "preact";
import { t } from "../i18n";
import { Button } from "../ui/Button";
import { FilterCell } from "./FilterCell";
import { type ColumnModel, nextSort, type SortDirection, sortDirection } from "./model";
import { ResizeHandle } from "./ResizeHandle";
import type { Column } from "./spec";
import type { NamesByColumn } from "./useNames";
import type { TableControl } from "./useTableState";
import type { WidthChoice, Widths } from "./useWidths";

/** Room for the two bounds of a number. Unit: px. */
const RANGE_WIDTH = 150;

/** How wide a key makes or leaves a column. Unit: px. */
const STEP = 16;

function widthOf<Row>(column: Column<Row>, hasFilters: boolean, widths: Widths): number {
  const chosen = widths.get(column.key);
  if (chosen !== undefined) return chosen;
  const hasRange = hasFilters && column.kind === "number" && column.isFilterable !== false;
  return hasRange ? Math.max(column.width, RANGE_WIDTH) : column.width;
}

/** Whether a column takes what is left; one that the reader has resized does not. */
function takesRest<Row>(column: Column<Row>, widths: Widths): boolean {
  return column.isWide === true && !widths.has(column.key);
}

/** Least width of a table, or all of it; on a phone the style sheet limits the column of the names. */
export function tableStyle<Row>(
  columns: readonly Column<Row>[],
  hasFilters: boolean,
  widths: Widths,
): Readonly<Record<string, string>> {
  const fixed = columns.filter((one) => !takesRest(one, widths));
  const sum = fixed.reduce((before, one) => before + widthOf(one, hasFilters, widths), 0);
  const wide = columns.find((column) => takesRest(column, widths));
  if (wide !== undefined)
    return { minWidth: `calc(${sum}px + min(${wide.width}px, var(--name-width)))` };
  return widths.size === 0 ? { minWidth: `${sum}px` } : { width: `${sum}px` };
}

export function TableHeader<Row>(props: {
  columns: readonly Column<Row>[];
  names: NamesByColumn;
  control: TableControl;
  hasFilters: boolean;
  sizes: WidthChoice;
  /** Address of the different values of a column. */
  distinctUrl: (column: string) => string;
}) {
  const { columns, control, hasFilters, sizes } = props;
  return (
    <>
      <colgroup>
        {columns.map((column) => (
          <col
            key={column.key}
            style={
              takesRest(column, sizes.widths)
                ? undefined
                : { width: `${widthOf(column, hasFilters, sizes.widths)}px` }
            }
          />
        ))}
      </colgroup>
      <thead>
        <tr>
          {columns.map((column) => (
            <HeaderCell
              key={column.key}
              column={column}
              prefix={props.names.get(column.key)?.prefix ?? ""}
              control={control}
              sizes={sizes}
            />
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

/** The title of a column with its unit. */
function HeaderTitle({ column }: { column: ColumnModel }) {
  const unit = column.shownUnit ?? column.unit;
  return (
    <>
      <span class="th-title">{column.title}</span>
      {unit !== undefined && <span class="th-unit">{unit}</span>}
    </>
  );
}

interface SortButtonProps extends Omit<ButtonHTMLAttributes, "class" | "title"> {
  readonly column: ColumnModel & { readonly hint?: string };
  readonly direction: SortDirection;
}

/** The title of a column as a button that sorts by it, with what else stands in the header. */
export function SortButton({ column, direction, children, ...rest }: SortButtonProps) {
  return (
    <Button
      class={`th-button ${direction === null ? "" : "is-sorted"}`}
      title={column.hint}
      {...rest}
    >
      <HeaderTitle column={column} />
      {children}
      <span class="th-arrow" aria-hidden="true">
        {direction === "ascending" ? "↑" : "↓"}
      </span>
    </Button>
  );
}

function HeaderCell<Row>(props: {
  column: Column<Row>;
  /** What all names of the page begin with, and their texts leave out. */
  prefix: string;
  control: TableControl;
  sizes: WidthChoice;
}) {
  const { column, prefix, control, sizes } = props;
  const { state, change } = control;
  const resize = (px: number | null) => sizes.resize(column.key, px);
  const handle = <ResizeHandle onResize={resize} />;
  const direction = sortDirection(state.sort, column.key);
  const inside = prefix !== "" && (
    <span class="th-prefix" title={prefix}>
      {t("in {prefix}", { prefix })}
    </span>
  );
  const align = `align-${column.align ?? "left"}`;
  if (column.isSortable === false) {
    return (
      <th scope="col" class={align} title={column.hint}>
        <span class="th-plain">
          <HeaderTitle column={column} />
          {inside}
        </span>
        {handle}
      </th>
    );
  }
  return (
    <th scope="col" class={align} aria-sort={direction ?? "none"}>
      <SortButton
        column={column}
        direction={direction}
        aria-keyshortcuts="Alt+ArrowLeft Alt+ArrowRight"
        onClick={() => change({ ...state, sort: nextSort(state.sort, column), page: 1 })}
        onKeyDown={(event) => {
          const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
          if (way === undefined || !event.altKey) return;
          event.preventDefault();
          resize((event.currentTarget.closest("th")?.offsetWidth ?? column.width) + way * STEP);
        }}
      >
        {inside}
      </SortButton>
      {handle}
    </th>
  );
}
