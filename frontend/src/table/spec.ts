/** How a table of the API is shown: one `TableSpec` a table. */

import type { ComponentChildren } from "preact";
import type { UnknownReasons } from "../api/lists";
import type { ColumnModel, TableDefaults } from "./model";

export interface CellContext {
  /** Why a column of this table is not known. */
  readonly unknown: UnknownReasons;
  /** The long text of this row is unfolded below it. */
  /** Largest value of a column on this page: the full length of its bars. */
  readonly largest: (key: string) => number;
  /** What sums are divided by; left out: 1. */
  readonly steps?: number;
  /** The text of a name in a column, which differs from those of the other rows. */
  readonly short?: (key: string, name: string) => string;
  readonly isUnfolded: boolean;
  readonly toggleUnfolded: () => void;
}

export interface Column<Row> extends ColumnModel {
  /** Least width. Unit: px. */
  readonly width: number;
  /** Takes what is left of the width; one column per table. */
  readonly isWide?: boolean;
  /** Holds names, which are shortened to the width of the column. */
  readonly isName?: boolean;
  /** Not shown until the reader chooses it. */
  readonly isHiddenAtFirst?: boolean;
  /** What the column means; the title of its header. */
  readonly hint?: string;
  readonly align?: "left" | "right" | "center";
  readonly cell: (row: Row, context: CellContext) => ComponentChildren;
  /** The plain value, for the clipboard. */
  readonly plain: (row: Row) => string | number | boolean | null | undefined;
}

export interface TableSpec<Row> {
  /** Prefix in the address and key of what the browser remembers. */
  readonly id: string;
  readonly noun: readonly [one: string, many: string];
  readonly columns: readonly Column<Row>[];
  readonly defaults: TableDefaults;
  readonly rowKey: (row: Row) => string;
  /** The one column that the search looks in; left out: all that hold text. */
  readonly searchIn?: string;
  /** Shown in a dialog, which links to other views would leave. */
  readonly isOfDialog?: boolean;
  /** What is unfolded below a row. */
  readonly unfolded?: (row: Row) => ComponentChildren;
}
