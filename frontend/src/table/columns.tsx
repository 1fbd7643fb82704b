/** The kinds of column that tables are made of. */

import type { ComponentChildren } from "preact";
import { t } from "../i18n";
import { fold } from "../lib/text";
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
import type { Column } from "./spec";

const FOLDED_CHARACTERS = 100;

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

function orUnknown<Value>(
  value: Value | null | undefined,
  reason: string | undefined,
  draw: (value: Value) => ComponentChildren,
): ComponentChildren {
  return value === null || value === undefined ? <Unknown reason={reason} /> : draw(value);
}

/** A time: shown in `unit` with three decimals, the exact ns as tooltip. */
export function timeColumn<Row>(
  key: KeyOf<Row, MaybeNumber>,
  title: string,
  unit: TimeUnit,
  more: Common = {},
): Column<Row> {
  const read = (row: Row) => row[key] as MaybeNumber;
  return {
    key,
    title,
    kind: "number",
    unit,
    align: "right",
    width: 128,
    ...more,
    plain: read,
    cell: (row, { unknown }) =>
      orUnknown(read(row), unknown[key] ?? more.whenNull, (ns) => (
        <span title={exactNs(ns)}>{formatTimeIn(ns, unit)}</span>
      )),
  };
}

export function countColumn<Row>(
  key: KeyOf<Row, MaybeNumber>,
  title: string,
  more: Common = {},
): Column<Row> {
  const read = (row: Row) => row[key] as MaybeNumber;
  return {
    key,
    title,
    kind: "number",
    align: "right",
    width: 92,
    ...more,
    plain: read,
    cell: (row, { unknown }) => orUnknown(read(row), unknown[key] ?? more.whenNull, formatInt),
  };
}

const GIB = 2 ** 30;

/** An amount of memory: shown in GiB with one decimal, the exact bytes as tooltip. */
export function memoryColumn<Row>(
  key: KeyOf<Row, MaybeNumber>,
  title: string,
  more: Common = {},
): Column<Row> {
  const read = (row: Row) => row[key] as MaybeNumber;
  return {
    key,
    title,
    kind: "number",
    align: "right",
    width: 130,
    // A bound would be in bytes.
    isFilterable: false,
    ...more,
    plain: read,
    cell: (row, { unknown }) =>
      orUnknown(read(row), unknown[key] ?? more.whenNull, (bytes) => (
        <span title={`${formatInt(bytes)} B`}>{formatFixed(bytes / GIB, 1)}</span>
      )),
  };
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
  const read = (row: Row) => row[key] as MaybeNumber;
  return {
    key,
    title,
    kind: "number",
    align: "right",
    width: 132,
    ...more,
    plain: read,
    cell: (row, { unknown, largest }) =>
      orUnknown(read(row), unknown[key] ?? more.whenNull, (pct) => (
        <ShareBar pct={pct} largest={full ?? largest(key)} tone={tone(row)} />
      )),
  };
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
  const read = (row: Row) => row[key] as MaybeText;
  return {
    key,
    title,
    kind: "text",
    width: 300,
    ...more,
    plain: read,
    cell: (row, { unknown }) =>
      orUnknown(read(row), unknown[key] ?? more.whenNull, (name) => <Name name={name} />),
  };
}

export function textColumn<Row>(
  key: KeyOf<Row, MaybeText>,
  title: string,
  more: Common = {},
): Column<Row> {
  const read = (row: Row) => row[key] as MaybeText;
  return {
    key,
    title,
    kind: "text",
    width: 110,
    ...more,
    plain: read,
    cell: (row, { unknown }) =>
      orUnknown(read(row), unknown[key] ?? more.whenNull, (text) => (
        <span title={text}>{text}</span>
      )),
  };
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
  more: Common & { warn?: (row: Row) => string | undefined } = {},
): Column<Row> {
  const { warn, ...common } = more;
  const read = (row: Row) => row[key] as MaybeFlag;
  return {
    key,
    title,
    kind: "boolean",
    align: "center",
    width: 96,
    ...common,
    plain: read,
    cell: (row, { unknown }) =>
      orUnknown(read(row), unknown[key] ?? more.whenNull, (value) => (
        <Flag value={value} warn={warn?.(row)} />
      )),
  };
}

/** A long text, folded after 100 characters; the whole of it opens below the row. */
export function foldedColumn<Row>(
  key: KeyOf<Row, MaybeText>,
  title: string,
  more: Common = {},
): Column<Row> {
  const read = (row: Row) => row[key] as MaybeText;
  return {
    key,
    title,
    kind: "text",
    width: 320,
    ...more,
    plain: read,
    cell: (row, { isUnfolded, toggleUnfolded, unknown }) =>
      orUnknown(read(row), unknown[key] ?? more.whenNull, (full) => {
        const { text, isFolded } = fold(full, FOLDED_CHARACTERS);
        if (!isFolded) return <span class="folded-text">{text}</span>;
        return (
          <span class="folded">
            <span class="folded-text">{text}…</span>
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
      }),
  };
}
