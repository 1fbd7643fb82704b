/** The kinds of column that tables are made of. */

import type { ComponentChildren } from "preact";
import { t } from "../i18n";
import { stackFrames } from "../lib/text";
import {
  exactNs,
  formatFixed,
  formatInt,
  formatPct,
  formatTimeIn,
  type TimeUnit,
} from "../lib/units";
import { Flag, Name } from "../ui/Name";
import { Unknown } from "../ui/states";
import type { CellContext, Column } from "./spec";

/** The names of the fields of a row that hold this type. */
type KeyOf<Row, Value> = {
  [Key in keyof Row]-?: Row[Key] extends Value ? Key : never;
}[keyof Row] &
  string;

type MaybeNumber = number | null | undefined;
type MaybeText = string | null | undefined;
type MaybeFlag = boolean | null | undefined;

interface Common {
  readonly hint?: string;
  readonly width?: number;
  readonly isHiddenAtFirst?: boolean;
  readonly isSortable?: boolean;
  readonly isFilterable?: boolean;
  /** What a null of this column means. */
  readonly whenNull?: string;
}

/** What a kind of column starts from, and what a table changes of it. */
type Look<Row> = Pick<Column<Row>, "kind" | "width"> & Partial<Column<Row>>;

/** A column over one field. A value that is not known gives the reason; others are drawn. */
function fieldColumn<Row, Value extends string | number | boolean>(
  key: string & keyof Row,
  title: string,
  { whenNull, ...look }: Look<Row> & Pick<Common, "whenNull">,
  draw: (value: Value, row: Row, context: CellContext) => ComponentChildren,
): Column<Row> {
  const read = (row: Row) => row[key] as Value | null | undefined;
  return {
    key,
    title,
    ...look,
    plain: read,
    cell: (row, context) => {
      const value = read(row);
      if (value !== null && value !== undefined) return draw(value, row, context);
      return <Unknown reason={context.unknown[key] ?? whenNull} />;
    },
  };
}

function numberColumn<Row>(
  key: KeyOf<Row, MaybeNumber>,
  title: string,
  look: Partial<Column<Row>> & Common & { width: number },
  draw: (value: number, row: Row, context: CellContext) => ComponentChildren,
): Column<Row> {
  return fieldColumn<Row, number>(key, title, { kind: "number", align: "right", ...look }, draw);
}

/** A time: shown in `unit` with three decimals, the exact ns as tooltip. */
export function timeColumn<Row>(
  key: KeyOf<Row, MaybeNumber>,
  title: string,
  unit: TimeUnit,
  more: Common = {},
): Column<Row> {
  return numberColumn(key, title, { unit, width: 128, ...more }, (ns) => (
    <span title={exactNs(ns)}>{formatTimeIn(ns, unit)}</span>
  ));
}

export function countColumn<Row>(
  key: KeyOf<Row, MaybeNumber>,
  title: string,
  more: Common = {},
): Column<Row> {
  return numberColumn(key, title, { width: 92, ...more }, formatInt);
}

const GIB = 2 ** 30;

/** An amount of memory: shown in GiB with one decimal, the exact bytes as tooltip. */
export function memoryColumn<Row>(
  key: KeyOf<Row, MaybeNumber>,
  title: string,
  more: Common = {},
): Column<Row> {
  // A bound would be in bytes.
  return numberColumn(key, title, { width: 130, isFilterable: false, ...more }, (bytes) => (
    <span title={`${formatInt(bytes)} B`}>{formatFixed(bytes / GIB, 1)}</span>
  ));
}

function rounded(value: number): string {
  if (value === 0) return "0";
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

/** A rate or ratio with three digits. */
export function rateColumn<Row>(
  key: KeyOf<Row, MaybeNumber>,
  title: string,
  hint: string,
  isHiddenAtFirst = false,
): Column<Row> {
  const column = countColumn<Row>(key, title, {
    width: 120,
    hint,
    whenNull: t("Its operations or bytes are not known."),
    isHiddenAtFirst,
  });
  return {
    ...column,
    cell: (row, context) => {
      const value = row[key] as MaybeNumber;
      return typeof value === "number" ? rounded(value) : column.cell(row, context);
    },
  };
}

/**
 * A share with a bar in its cell. `tone` names the colour: `tc`, `non_tc`, `memory`.
 *
 * A bar is full for the largest share of the page, or for `full` percent.
 */
export function shareColumn<Row>(
  key: KeyOf<Row, MaybeNumber>,
  title: string,
  tone: (row: Row) => string,
  { full, ...more }: Common & { full?: number } = {},
): Column<Row> {
  return numberColumn(key, title, { width: 132, ...more }, (pct, row, { largest }) => (
    <ShareBar pct={pct} largest={full ?? largest(key)} tone={tone(row)} />
  ));
}

/** A bar, full for the largest share beside it, and the share itself. */
export function ShareBar(props: { pct: number; largest: number; tone: string }) {
  const { pct, largest, tone } = props;
  const width = largest > 0 ? Math.min(100, (100 * pct) / largest) : 0;
  return (
    <span class="share" title={`${pct.toFixed(3)} %`}>
      <span class="share-track" aria-hidden="true">
        <span class={`share-fill part-${tone}`} style={{ width: `${width}%` }} />
      </span>
      <span class="share-value">{formatPct(pct)}</span>
    </span>
  );
}

export function nameColumn<Row>(
  key: KeyOf<Row, MaybeText>,
  title: string,
  more: Common & { isWide?: boolean } = {},
): Column<Row> {
  return fieldColumn<Row, string>(key, title, { kind: "text", width: 300, ...more }, (name) => (
    <Name name={name} />
  ));
}

export function textColumn<Row>(
  key: KeyOf<Row, MaybeText>,
  title: string,
  more: Common = {},
): Column<Row> {
  return fieldColumn<Row, string>(key, title, { kind: "text", width: 110, ...more }, (text) => (
    <span title={text}>{text}</span>
  ));
}

/** A text of which there are few: its filter is a list of them. */
export function choiceColumn<Row>(
  key: KeyOf<Row, MaybeText>,
  title: string,
  more: Common = {},
): Column<Row> {
  return { ...textColumn<Row>(key, title, more), kind: "choice" };
}

/** Check or cross. `warn` gives the reason why a "no" of this row deserves attention. */
export function flagColumn<Row>(
  key: KeyOf<Row, MaybeFlag>,
  title: string,
  { warn, ...more }: Common & { warn?: (row: Row) => string | undefined } = {},
): Column<Row> {
  const look = { kind: "boolean", align: "center", width: 96, ...more } as const;
  return fieldColumn<Row, boolean>(key, title, look, (value, row) => (
    <Flag value={value} warn={warn?.(row)} />
  ));
}

interface CalledFrom {
  readonly source_line?: string | null;
  readonly stack_trace?: string | null;
}

/** Where a row was called from: the program's line; the whole stack opens below the row. */
export function traceColumn<Row extends CalledFrom>(
  key: KeyOf<Row, MaybeText>,
  title: string,
  more: Common = {},
): Column<Row> {
  const look = { kind: "text", width: 320, ...more } as const;
  return fieldColumn<Row, string>(key, title, look, (_, row, context) => (
    <ProgramLine row={row} context={context} />
  ));
}

function ProgramLine({ row, context }: { row: CalledFrom; context: CellContext }) {
  const { isUnfolded, toggleUnfolded } = context;
  const line = row.source_line ?? "";
  if (stackFrames(row.stack_trace ?? "").length < 2) return <span class="folded-text">{line}</span>;
  return (
    <span class="folded">
      <span class="folded-text" title={line}>
        {line}
      </span>
      <button
        type="button"
        class="link-button"
        tabIndex={-1}
        aria-expanded={isUnfolded}
        onClick={(event) => {
          event.stopPropagation();
          toggleUnfolded();
        }}
      >
        {isUnfolded ? t("See less") : t("See more")}
      </button>
    </span>
  );
}
