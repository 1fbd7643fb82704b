/** The kinds of column that tables are made of. */

import type { ComponentChildren } from "preact";
import { t } from "../i18n";
import { type Scale, sumUnit } from "../lib/perStep";
import { stackFrames } from "../lib/text";
import {
  exactNs,
  formatCount,
  formatFixed,
  formatInt,
  formatPct,
  formatTimeIn,
  NS_PER_UNIT,
  type TimeUnit,
} from "../lib/units";
import { Button } from "../ui/Button";
import { Flag, Name } from "../ui/Name";
import { Unknown } from "../ui/states";
import type { CellContext, Column } from "./spec";

/** How the cells of a column look; made of its kind and the unit in its name. */
type Format =
  | "time"
  | "share"
  | "memory"
  | "count"
  | "rate"
  | "number"
  | "flag"
  | "choice"
  | "text"
  | "name"
  | "trace";

/** A column of a table of the API, as `declared.ts` lists them. */
export interface DeclaredColumn<Row> {
  readonly key: keyof Row & string;
  readonly format: Format;
  readonly title: string;
  readonly hint: string;
  /** What a null of this column means. */
  readonly whenNull?: string;
  readonly unit?: TimeUnit;
  readonly isHiddenAtFirst?: boolean;
  /** The value adds up the aggregated iterations. */
  readonly isSum?: boolean;
}

type Value = string | number | boolean;
type Draw = (value: never, row: never, context: CellContext) => ComponentChildren;

interface Look extends Pick<Column<unknown>, "kind" | "align" | "isFilterable"> {
  /** Least width. Unit: px. */
  readonly width: number;
  readonly draw: (column: DeclaredColumn<never>) => Draw;
}

const RIGHT = { kind: "number", align: "right" } as const;
/** As in the views of memory: decimal. */
const GB = 1e9;

const LOOKS: Readonly<Record<Format, Look>> = {
  time: {
    ...RIGHT,
    width: 100,
    draw:
      ({ key, unit = "ms" }) =>
      (ns: number) => (
        <span title={exactNs(Math.round(ns))}>
          {MOMENT.test(key) ? momentIn(ns, unit) : formatTimeIn(ns, unit)}
        </span>
      ),
  },
  share: {
    ...RIGHT,
    width: 132,
    draw: () => (pct: number) => <ShareBar pct={pct} largest={100} tone="gpu" />,
  },
  memory: {
    ...RIGHT,
    width: 120,
    // A bound would have to be typed in bytes.
    isFilterable: false,
    draw: () => (bytes: number) => (
      <span title={`${formatInt(bytes)} B`}>{formatFixed(bytes / GB, 1)}</span>
    ),
  },
  count: { ...RIGHT, width: 76, draw: () => formatCount },
  rate: { ...RIGHT, width: 110, draw: () => rounded },
  number: { kind: "choice", align: "left", width: 90, draw: () => formatInt },
  flag: {
    kind: "boolean",
    align: "center",
    width: 94,
    draw: () => (value: boolean) => <Flag value={value} />,
  },
  choice: { kind: "choice", width: 100, draw: () => plainText },
  text: { kind: "text", width: 110, draw: () => plainText },
  name: {
    kind: "text",
    width: 280,
    draw:
      ({ key }) =>
      (name: string, _, context) => <Name name={name} short={context.short?.(key, name)} />,
  },
  trace: {
    kind: "text",
    width: 300,
    draw: () => (_: string, row: CalledFrom, context) => (
      <ProgramLine row={row} context={context} />
    ),
  },
};

/** Columns of moments: neighbors differ in ns, while the whole run takes minutes. */
const MOMENT = /(^|_)(start|stop)(_time)?_ns$/;

/** Room for seven digits before the point and six behind it. */
const MOMENT_WIDTH = 136;

function momentIn(ns: number, unit: TimeUnit): string {
  return formatFixed(ns / NS_PER_UNIT[unit], Math.round(Math.log10(NS_PER_UNIT[unit])));
}

function plainText(text: string) {
  return <span title={text}>{text}</span>;
}

function rounded(value: number): string {
  if (value === 0) return "0";
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

function letterWidth(letter: string): number {
  if (letter > "\u2e80") return 14;
  return /[mwMW]/.test(letter) ? 12 : 8;
}

/** Room for a header, with its unit and the arrow of the order. */
function headerWidth(title: string, unit: string | undefined, isSum: boolean | undefined): number {
  const letters = [...title].reduce((sum, letter) => sum + letterWidth(letter), 0);
  const perStep = isSum === true ? 32 : 0;
  return Math.round(40 + letters + perStep + (unit === undefined ? 0 : 26));
}

/** What a table changes of a declared column; `draw` replaces the cell of a value that is known. */
export type Change<Row> = Partial<Omit<Column<Row>, "key">> & {
  readonly draw?: (value: never, row: Row, context: CellContext) => ComponentChildren;
};

export type Changes<Row> = Readonly<Partial<Record<keyof Row & string, Change<Row>>>>;

/** One declared column as the table shows it. */
function shownColumn<Row>(
  column: DeclaredColumn<Row>,
  { draw, ...change }: Change<Row>,
): Column<Row> {
  const { key, format, whenNull, title, unit, isSum } = column;
  const look = LOOKS[format];
  const read = (row: Row) => row[key] as Value | null | undefined;
  const drawn = draw ?? look.draw(column as DeclaredColumn<never>);
  const { draw: _, ...rest } = look;
  return {
    ...rest,
    key,
    title,
    hint: column.hint,
    ...(unit === undefined ? {} : { unit }),
    ...(column.isHiddenAtFirst === true ? { isHiddenAtFirst: true } : {}),
    ...(isSum === true ? { isSum } : {}),
    ...(format === "name" ? { isName: true } : {}),
    width: Math.max(MOMENT.test(key) ? MOMENT_WIDTH : look.width, headerWidth(title, unit, isSum)),
    plain: read,
    cell: (row, context) => {
      const value = read(row);
      if (value === null || value === undefined)
        return <Unknown reason={context.unknown[key] ?? whenNull} />;
      const { steps = 1 } = context;
      const shown = isSum === true && typeof value === "number" ? value / steps : value;
      return drawn(shown as never, row as never, context);
    },
    ...change,
  };
}

/** The declared columns as the table shows them; the first one takes what is left of the width. */
export function shownColumns<Row>(
  declared: readonly DeclaredColumn<Row>[],
  changes?: Changes<Row>,
): readonly Column<Row>[] {
  return declared.map((column, index) => {
    const shown = shownColumn(column, changes?.[column.key] ?? {});
    return index === 0 && column.format === "name" ? { ...shown, isWide: true } : shown;
  });
}

/** The columns with their sums per step or in total, and the unit that says which. */
export function scaledColumns<Row>(
  columns: readonly Column<Row>[],
  scale: Scale,
): readonly Column<Row>[] {
  const { steps } = scale;
  return columns.map((column) => {
    if (column.isSum !== true) return column;
    const unit = sumUnit(column.unit, scale);
    return {
      ...column,
      ...(unit === "" ? {} : { shownUnit: unit }),
      factor: steps,
      cell: (row, context) => column.cell(row, { ...context, steps }),
    };
  });
}

/** Some of the columns, in the order of the keys, all of them shown. */
export function pickColumns<Row>(
  columns: readonly Column<Row>[],
  keys: readonly (keyof Row & string)[],
): readonly Column<Row>[] {
  return keys.flatMap((key) => {
    const column = columns.find((candidate) => candidate.key === key);
    return column === undefined ? [] : [{ ...column, isHiddenAtFirst: false }];
  });
}

/** A share as a bar that is full for the largest one of the page, in the color of a part. */
export function shareOf<Row>(key: keyof Row & string, tone: (row: Row) => string): Change<Row> {
  return {
    draw: (pct: number, row: Row, { largest }: CellContext) => (
      <ShareBar pct={pct} largest={largest(key)} tone={tone(row)} />
    ),
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

interface CalledFrom {
  readonly source_line?: string | null;
  readonly stack_trace?: string | null;
}

/** The line of the program that called an op; the whole stack unfolds below the row. */
function ProgramLine({ row, context }: { row: CalledFrom; context: CellContext }) {
  const { isUnfolded, toggleUnfolded } = context;
  const line = row.source_line ?? "";
  if (stackFrames(row.stack_trace ?? "").length < 2) return <span class="folded-text">{line}</span>;
  return (
    <span class="folded">
      <span class="folded-text" title={line}>
        {line}
      </span>
      <Button
        class="link-button"
        tabIndex={-1}
        aria-expanded={isUnfolded}
        onClick={(event) => {
          event.stopPropagation();
          toggleUnfolded();
        }}
      >
        {isUnfolded ? t("See less") : t("See more")}
      </Button>
    </span>
  );
}
