/** A small table without paging, from what each column shows of a row. */

import type { ComponentChildren } from "preact";

interface More<Row> {
  readonly class?: string;
  /** What the column means; the tooltip of its header. */
  readonly hint?: string;
  /** The cells are headers of their rows. */
  readonly isHead?: boolean;
  /** The tooltip of a cell. */
  readonly tip?: (row: Row) => string | undefined;
}

export type TableColumn<Row> = readonly [
  title: string,
  cell: (row: Row) => ComponentChildren,
  more?: More<Row>,
];

/** A column of numbers. */
export const RIGHT = { class: "align-right" } as const;

interface ColumnsTableProps<Row> {
  readonly class?: string;
  readonly caption?: string;
  readonly columns: readonly TableColumn<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row) => string | number;
}

export function ColumnsTable<Row>(props: ColumnsTableProps<Row>) {
  const { columns, rows, rowKey, caption } = props;
  return (
    <table class={props.class}>
      {caption !== undefined && <caption class="visually-hidden">{caption}</caption>}
      <thead>
        <tr>
          {columns.map(([title, , more]) => (
            <th key={title} scope="col" class={more?.class} title={more?.hint}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={rowKey(row)}>
            {columns.map(([title, cell, more]) =>
              more?.isHead === true ? (
                <th key={title} scope="row" class={more.class} title={more.tip?.(row)}>
                  {cell(row)}
                </th>
              ) : (
                <td key={title} class={more?.class} title={more?.tip?.(row)}>
                  {cell(row)}
                </td>
              ),
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface SmallTableProps<Row> extends ColumnsTableProps<Row> {
  readonly label: string;
  /** How many rows there are beyond these. */
  readonly more?: string | null;
}

/** The same in a panel; keys can scroll it. */
export function SmallTable<Row>({ label, more, ...table }: SmallTableProps<Row>) {
  return (
    <>
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset draws a frame of its own */}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must have the focus to be scrolled by key */}
      <div class="table-scroll" role="group" aria-label={label} tabIndex={0}>
        <ColumnsTable {...table} />
      </div>
      {more != null && <p>{more}</p>}
    </>
  );
}
