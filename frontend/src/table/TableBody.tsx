/** The rows of a table: one of them has the focus, one may be selected, one may be unfolded. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { UnknownReasons } from "../api/lists";
import { isReport } from "../api/source";
import { t } from "../i18n";
import { navigate } from "../state/location";
import { Icon } from "../ui/icons";
import { openPageOf, PageAnchor } from "../ui/PageLink";
import type { Column, TableSpec } from "./spec";
import { timelineOf } from "./timelineLink";
import { RowsBelow, useDrawnRows } from "./useDrawnRows";
import type { NamesByColumn } from "./useNames";

const SKELETON_ROWS = 8;

export interface TableBodyProps<Row> {
  readonly spec: TableSpec<Row>;
  readonly columns: readonly Column<Row>[];
  readonly names: NamesByColumn;
  readonly rows: readonly Row[];
  readonly isLoading: boolean;
  readonly unknown: UnknownReasons;
  /** Rows before this page. */
  readonly firstIndex: number;
  readonly selected: string | null;
  readonly onSelect?: ((row: Row) => void) | undefined;
  readonly onDrill?: ((row: Row) => void) | undefined;
  readonly onBack?: (() => void) | undefined;
  /** Turns the page; false where there is no other. */
  readonly onPage: (step: number) => boolean;
  readonly bodyId?: string | undefined;
}

/** The row that a key moves the focus to; null for other keys. */
export function rowAfterKey(key: string, active: number, count: number): number | null {
  const last = count - 1;
  switch (key) {
    case "ArrowDown":
      return Math.min(last, active + 1);
    case "ArrowUp":
      return Math.max(0, active - 1);
    case "Home":
      return 0;
    case "End":
      return last;
    default:
      return null;
  }
}

/** The largest number of each column on the page, computed on first use. */
function largestOf<Row>(rows: readonly Row[]): (key: string) => number {
  const known = new Map<string, number>();
  return (key) => {
    const values = () => rows.map((row) => Number((row as Record<string, unknown>)[key] ?? 0));
    const value = known.get(key) ?? Math.max(0, ...values());
    known.set(key, value);
    return value;
  };
}

/** The action of a key on the focused row; undefined for other keys. */
function actionOf<Row>(
  key: string,
  row: Row,
  props: TableBodyProps<Row>,
  turn: (isTurned: boolean) => void,
): (() => void) | undefined {
  const { onSelect, onDrill, onBack, onPage } = props;
  const drill = onDrill ?? onSelect;
  switch (key) {
    case "PageDown":
      return () => turn(onPage(1));
    case "PageUp":
      return () => turn(onPage(-1));
    case "Enter":
      return drill && (() => drill(row));
    case " ":
      return onSelect && (() => onSelect(row));
    case "Escape":
      return onBack;
    default:
      return undefined;
  }
}

function focusRow(body: HTMLElement | null, index: number): boolean {
  const row = body?.querySelector<HTMLElement>(`tr[data-index="${index}"]`);
  row?.focus();
  return row != null;
}

/** Moves the focus to a row, which may have to be drawn first. */
function useFocusOfRow(
  body: { readonly current: HTMLElement | null },
  drawAll: () => void,
): (index: number) => void {
  const wanted = useRef<number | null>(null);
  useLayoutEffect(() => {
    if (wanted.current !== null && focusRow(body.current, wanted.current)) wanted.current = null;
  });
  return (index) => {
    if (focusRow(body.current, index)) return;
    wanted.current = index;
    drawAll();
  };
}

/** After a page was turned by a key the focus is on its first row, not on a row that is gone. */
function useFocusAfterTurn(
  body: { readonly current: HTMLElement | null },
  rows: readonly unknown[],
): (isTurned: boolean) => void {
  const turnedFrom = useRef<readonly unknown[] | null>(null);
  useLayoutEffect(() => {
    if (turnedFrom.current === null || turnedFrom.current === rows) return;
    turnedFrom.current = null;
    const focused = document.activeElement;
    if (focused === document.body || body.current?.contains(focused)) focusRow(body.current, 0);
  }, [body, rows]);
  return (isTurned) => {
    if (isTurned) turnedFrom.current = rows;
  };
}

export function TableBody<Row>(props: TableBodyProps<Row>) {
  const { spec, rows, selected } = props;
  const body = useRef<HTMLTableSectionElement>(null);
  const [focused, setFocused] = useState(0);
  const [unfolded, setUnfolded] = useState<string | null>(null);
  const turn = useFocusAfterTurn(body, rows);
  const selectedIndex = rows.findIndex((row) => spec.rowKey(row) === selected);
  // Tab reaches one row: the one that had the focus, on a new page the selected or the first one.
  const entry = focused < rows.length ? focused : 0;
  useEffect(() => {
    setFocused(Math.max(0, selectedIndex));
    const row = body.current?.querySelector(`tr[data-index="${selectedIndex}"]`);
    row?.scrollIntoView({ block: "nearest" });
  }, [selectedIndex]);

  const largest = useMemo(() => largestOf(rows), [rows]);
  const { drawn, drawUpTo, drawAll } = useDrawnRows(rows, Math.max(entry, selectedIndex));
  const moveFocus = useFocusOfRow(body, drawAll);

  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[entry];
    if (row === undefined || (event.target as HTMLElement).tagName !== "TR") return;
    if (event.key === "Enter" && event.shiftKey && openPageOf(event.target as HTMLElement)) return;
    if (event.key === "l" && openTimelineOf(row, props.spec)) {
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    const next = rowAfterKey(event.key, entry, rows.length);
    const action = next === null ? actionOf(event.key, row, props, turn) : () => moveFocus(next);
    if (action === undefined) return;
    event.preventDefault();
    action();
  };

  // Rows are drawn again only when something in them changes: a table does so often, and has many.
  const isSelectable = props.onSelect !== undefined;
  const { columns, names, unknown, firstIndex } = props;
  const short = useMemo(
    () => (column: string, name: string) => names.get(column)?.text(name) ?? name,
    [names],
  );
  const drawnRows = useMemo(
    () =>
      rows.slice(0, drawn).map((row, index) => {
        const key = spec.rowKey(row);
        return (
          <BodyRow
            key={key}
            spec={spec}
            columns={columns}
            row={row}
            unknown={unknown}
            largest={largest}
            short={short}
            index={index}
            rowNumber={firstIndex + index + 1}
            isEntry={index === entry}
            isSelectable={isSelectable}
            isSelected={key === selected}
            isUnfolded={key === unfolded}
            onUnfold={() => setUnfolded(key === unfolded ? null : key)}
          />
        );
      }),
    [
      rows,
      drawn,
      spec,
      columns,
      unknown,
      largest,
      short,
      firstIndex,
      entry,
      isSelectable,
      selected,
      unfolded,
    ],
  );
  return (
    <>
      <tbody
        ref={body}
        id={props.bodyId}
        onKeyDown={onKeyDown}
        onClick={(event) => {
          const row = rows[indexOfRow(event.target) ?? -1];
          if (row !== undefined) props.onSelect?.(row);
        }}
        onFocusIn={(event) => {
          const index = indexOfRow(event.target);
          if (index !== null) setFocused(index);
        }}
      >
        {props.isLoading && <SkeletonRows columns={columns.length} />}
        {drawnRows}
      </tbody>
      {drawn < rows.length && (
        <RowsBelow
          rows={rows.length - drawn}
          columns={columns.length}
          onSeen={(more) => drawUpTo(drawn + more)}
        />
      )}
    </>
  );
}

/** The index of the row that an element of it belongs to; null: the text unfolded below one. */
function indexOfRow(target: EventTarget | null): number | null {
  const row = target instanceof Element ? target.closest<HTMLElement>("tr[data-index]") : null;
  return row === null ? null : Number(row.dataset.index);
}

function BodyRow<Row>(props: {
  spec: TableSpec<Row>;
  columns: readonly Column<Row>[];
  row: Row;
  unknown: UnknownReasons;
  largest: (key: string) => number;
  short: (key: string, name: string) => string;
  index: number;
  rowNumber: number;
  isEntry: boolean;
  isSelectable: boolean;
  isSelected: boolean;
  isUnfolded: boolean;
  onUnfold: () => void;
}) {
  const { spec, columns, row, isUnfolded } = props;
  const { largest, short, unknown } = props;
  const context = { isUnfolded, toggleUnfolded: props.onUnfold, unknown, largest, short };
  return (
    <>
      <tr
        data-index={props.index}
        aria-rowindex={props.rowNumber}
        aria-selected={props.isSelectable ? props.isSelected : undefined}
        class={props.isSelectable ? "is-selectable" : undefined}
        tabIndex={props.isEntry ? 0 : -1}
      >
        {columns.map((column, index) => (
          <td key={column.key} class={`align-${column.align ?? "left"}`}>
            {column.cell(row, context)}
            {index === 0 && <TimelineAnchor row={row} spec={spec} />}
          </td>
        ))}
      </tr>
      {isUnfolded && spec.unfolded !== undefined && (
        <tr class="unfolded">
          <td colSpan={columns.length}>{spec.unfolded(row)}</td>
        </tr>
      )}
    </>
  );
}

/** Whether rows of a table lead to the timeline: a report in one file has none. */
function hasTimeline<Row>(spec: TableSpec<Row>): boolean {
  return !isReport() && spec.isOfDialog !== true;
}

/** Opens the timeline with what a row is about; false: there is none. */
function openTimelineOf<Row>(row: Row, spec: TableSpec<Row>): boolean {
  const to = hasTimeline(spec) ? timelineOf(row) : null;
  if (to !== null) navigate(to);
  return to !== null;
}

function TimelineAnchor<Row>(props: { row: Row; spec: TableSpec<Row> }) {
  const to = hasTimeline(props.spec) ? timelineOf(props.row) : null;
  if (to === null) return null;
  return (
    <PageAnchor
      to={to}
      class="row-page row-timeline"
      label={t("Show in the timeline")}
      tabIndex={-1}
    >
      <Icon name="timeline" size={13} />
    </PageAnchor>
  );
}

function SkeletonRows({ columns }: { columns: number }) {
  return (
    <>
      {Array.from({ length: SKELETON_ROWS }, (_, index) => (
        <tr key={index} class="skeleton-row">
          {Array.from({ length: columns }, (__, cell) => (
            <td key={cell}>
              <span />
            </td>
          ))}
        </tr>
      ))}
    </>
  );
}
