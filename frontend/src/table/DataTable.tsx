/** A table over one list of the API. The server sorts, filters and pages; the caller owns the state. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Params } from "../api/client";
import type { Cut, ListPage, UnknownReasons } from "../api/lists";
import { type Resource, useResource } from "../api/useResource";
import { t } from "../i18n";
import { countOf, formatInt } from "../lib/units";
import { useQuery } from "../state/location";
import { scopedUrl, useScope } from "../state/scope";
import { Button } from "../ui/Button";
import { Empty, ErrorNote, useDimmed } from "../ui/states";
import {
  askedFor,
  filterParams,
  isFiltered,
  isUsed,
  listParams,
  pageCount,
  type TableState,
  withoutFilters,
} from "./model";
import { Pager } from "./Pager";
import type { TableSpec } from "./spec";
import { TableBody } from "./TableBody";
import { TableHeader, tableStyle } from "./TableHeader";
import { type ExportFormat, TableToolbar } from "./TableToolbar";
import { type ColumnChoice, useColumns } from "./useColumns";
import { useNames } from "./useNames";
import { type TableControl, useUrlTable } from "./useTableState";
import { useWidths } from "./useWidths";

export interface DataTableProps<Row> {
  readonly spec: TableSpec<Row>;
  readonly control: TableControl;
  /** Path of the list below the aggregation: "ops/". */
  readonly path: string;
  readonly params?: Params;
  readonly title: ComponentChildren;
  /** Accessible name, when the title is more than text. */
  readonly caption: string;
  /** Key of the selected row. */
  readonly selected?: string | null;
  readonly onSelect?: (row: Row) => void;
  /** Enter on a row: go on to what it fills. */
  readonly onDrill?: (row: Row) => void;
  /** Esc in the rows: back to where the reader came from. */
  readonly onBack?: () => void;
  /** Shown when the list is empty without any filter. */
  readonly whenEmpty?: ComponentChildren;
  readonly hasExport?: boolean;
  /** Marks the rows for the code that moves the focus here. */
  readonly bodyId?: string;
}

const NO_REASONS: UnknownReasons = {};
const NO_ROWS: readonly never[] = [];

type ListUrl = (params: Params) => string;

interface TableData<Row> {
  readonly page: Resource<ListPage<Row>>;
  /** Rows that fit the filters; null before the first answer. */
  readonly count: number | null;
  /** Rows without any filter. */
  readonly total: number | null;
}

/** Fetches the page of the state, and the number of rows without its filters. */
function useTableData<Row>(url: ListUrl, state: TableState, asked: TableState): TableData<Row> {
  const page = useResource<ListPage<Row>>(url(listParams(asked)));
  const isNarrowed = isFiltered(state);
  const all = useResource<ListPage<Row>>(isNarrowed ? url({ page_size: 10 }) : null);
  const count = page.data?.count ?? null;
  return { page, count, total: isNarrowed ? (all.data?.count ?? null) : count };
}

/** A page beyond the end (an old link, a narrower filter) becomes the last page. */
function useLastPage(control: TableControl, count: number | null, isStale: boolean): void {
  const { state, change } = control;
  const last = count === null || isStale ? null : pageCount(count, state.pageSize);
  useEffect(() => {
    if (last !== null && state.page > last) change({ ...state, page: last }, { replace: true });
  }, [last, change, state]);
}

export function DataTable<Row>(props: DataTableProps<Row>) {
  const { spec, control, path, params } = props;
  const scope = useScope();
  const url: ListUrl = (more) => scopedUrl(scope, path, { ...params, ...more });
  const asked = askedFor(control.state, spec.searchIn);
  const { page, count, total } = useTableData<Row>(url, control.state, asked);
  const columns = useColumns(spec, {
    isInAddress: control.isInAddress,
    rows: page.data?.results ?? NO_ROWS,
    used: (key) => isUsed(control.state, key),
  });
  const rows = page.data?.results ?? NO_ROWS;
  const { table, names } = useNames(columns.shown, rows);
  useLastPage(control, count, page.isStale);
  const dimmed = useDimmed<HTMLDivElement>(page.isStale);
  const sizes = useWidths(spec.id);
  const filters = filterParams(asked);
  const [areFiltersOpen, setFiltersOpen] = useState(
    () => Object.keys(control.state.filters).length > 0,
  );
  const exportUrl = (format: ExportFormat) =>
    scopedUrl(scope, `${path}export/`, { ...params, ...filters, format });
  return (
    <section class={`data-table ${total === 1 ? "is-single" : ""}`} aria-label={props.caption}>
      <TableToolbar
        spec={spec}
        control={control}
        columns={columns}
        title={props.title}
        caption={props.caption}
        countText={countText(spec.noun, count, total)}
        areFiltersOpen={areFiltersOpen}
        onToggleFilters={() => setFiltersOpen(!areFiltersOpen)}
        exportUrl={props.hasExport === false ? null : exportUrl}
        listUrl={(number, size) => url({ ...filters, page: number, page_size: size })}
      />
      <div ref={dimmed} class={`table-scroll ${page.isStale ? "is-stale" : ""}`}>
        <table
          ref={table}
          role="grid"
          aria-rowcount={count ?? -1}
          aria-busy={page.isLoading}
          style={tableStyle(columns.shown, areFiltersOpen, sizes.widths)}
        >
          <caption class="visually-hidden">{props.caption}</caption>
          <TableHeader
            columns={columns.shown}
            names={names}
            control={control}
            hasFilters={areFiltersOpen}
            sizes={sizes}
            distinctUrl={(column) => scopedUrl(scope, `${path}distinct/`, { ...params, column })}
          />
          <TableBody
            spec={spec}
            columns={columns.shown}
            names={names}
            rows={rows}
            unknown={page.data?.unknown ?? NO_REASONS}
            isLoading={page.data === null && page.error === null}
            // Of the page that is shown, which is the one before while the next one loads.
            firstIndex={page.data === null ? 0 : (page.data.page - 1) * page.data.page_size}
            selected={props.selected ?? null}
            onSelect={props.onSelect}
            onDrill={props.onDrill}
            onBack={props.onBack}
            onPage={(step) => turnPage(control, count, step)}
            bodyId={props.bodyId}
          />
        </table>
        {page.error !== null && (
          <div class="table-message">
            <ErrorNote error={page.error} onRetry={page.reload} />
            <ResetButton control={control} spec={spec} />
          </div>
        )}
        {count === 0 && !page.isStale && (
          <NoRows
            control={control}
            spec={spec}
            reason={page.data?.unknown?.["*"]}
            whenEmpty={props.whenEmpty}
          />
        )}
      </div>
      <TruncationNote cut={page.data?.cut} noun={spec.noun} />
      <EmptyColumns columns={columns} />
      <Pager control={control} count={count} />
    </section>
  );
}

type UrlTableProps<Row> = Omit<DataTableProps<Row>, "control" | "title"> & {
  readonly title?: ComponentChildren;
};

/** A table whose state is in the address; without another title, its caption is one. */
export function UrlTable<Row>(props: UrlTableProps<Row>) {
  const control = useUrlTable(props.spec, useQuery());
  return <DataTable title={<h2>{props.caption}</h2>} {...props} control={control} />;
}

/** Which columns are left out because no row has a value, and the way to see them anyway. */
function EmptyColumns<Row>({ columns }: { columns: ColumnChoice<Row> }) {
  const { empty, showEmpty } = columns;
  if (empty.length === 0) return null;
  return (
    <p class="left-out">
      {t("Columns without a value are hidden: {names}.", {
        names: empty.map((column) => column.title).join(", "),
      })}{" "}
      <Button class="link-button" onClick={showEmpty}>
        {t("Show them")}
      </Button>
    </p>
  );
}

function turnPage(control: TableControl, count: number | null, step: number): boolean {
  const { state, change } = control;
  const last = pageCount(count ?? 0, state.pageSize);
  const page = Math.max(1, Math.min(last, state.page + step));
  if (page !== state.page) change({ ...state, page });
  return page !== state.page;
}

/** "17,129 kernels", or "1,204 of 17,129 kernels" when filters leave out some. */
export function countText(
  noun: readonly [string, string],
  count: number | null,
  total: number | null,
): string {
  if (count === null) return "";
  if (total === null || total === count) return countOf(count, noun);
  return t("{count} of {total}", { count: formatInt(count), total: countOf(total, noun) });
}

/** Explains an empty table: by the filters, or by the profile. */
function NoRows<Row>(props: {
  control: TableControl;
  spec: TableSpec<Row>;
  /** Why this database has nothing of the kind. */
  reason: string | undefined;
  whenEmpty: ComponentChildren;
}) {
  const { control, spec, reason } = props;
  if (!isFiltered(control.state)) {
    const none = <Empty title={t("No {things}", { things: spec.noun[1] })}>{reason}</Empty>;
    const text = reason === undefined ? (props.whenEmpty ?? none) : none;
    return <div class="table-message">{text}</div>;
  }
  return (
    <div class="table-message">
      <Empty title={t("No {thing} fits the filters", { thing: spec.noun[0] })}>
        <Button onClick={() => control.change(withoutFilters(control.state))}>
          {t("Clear the filters")}
        </Button>
      </Empty>
    </div>
  );
}

function ResetButton<Row>({ control, spec }: { control: TableControl; spec: TableSpec<Row> }) {
  const reset = () =>
    control.change({ ...withoutFilters(control.state), sort: spec.defaults.sort });
  return <Button onClick={reset}>{t("Reset filters and order")}</Button>;
}

export function TruncationNote(props: {
  cut: Cut | undefined;
  noun: readonly [one: string, many: string];
}) {
  const { cut, noun } = props;
  if (cut === undefined || cut.held === cut.count) return null;
  return (
    <p class="left-out">
      {t("This report contains the first {held} of {all}; the viewer shows all of them.", {
        held: formatInt(cut.held),
        all: countOf(cut.count, noun),
      })}
    </p>
  );
}
