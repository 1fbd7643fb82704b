/** Above a table: title, live count, search, filters, columns, export. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { getJson } from "../api/client";
import type { ListPage } from "../api/types";
import { tsvLine } from "../lib/text";
import { countOf } from "../lib/units";
import { Icon } from "../ui/icons";
import { MenuButton } from "../ui/Popover";
import { chips, withFilter, withoutFilters } from "./model";
import type { TableSpec } from "./spec";
import type { ColumnChoice } from "./useColumns";
import { useDebounced } from "./useDebounced";
import type { TableControl } from "./useTableState";

/** Most rows that the clipboard gets, and how many are fetched at once. */
const COPY_LIMIT = 5_000;
const COPY_PAGE = 200;

/** What the server makes of a table; PDF holds the first rows only, and says so. */
const EXPORTS = [
  { format: "xlsx", label: "Excel" },
  { format: "pdf", label: "PDF" },
  { format: "csv", label: "CSV" },
  { format: "json", label: "JSON" },
] as const;

export type ExportFormat = (typeof EXPORTS)[number]["format"];

export interface TableToolbarProps<Row> {
  readonly spec: TableSpec<Row>;
  readonly control: TableControl;
  readonly columns: ColumnChoice<Row>;
  readonly title: ComponentChildren;
  readonly countText: string;
  readonly areFiltersOpen: boolean;
  readonly onToggleFilters: () => void;
  readonly exportUrl: ((format: ExportFormat) => string) | null;
  readonly listUrl: (page: number, pageSize: number) => string;
}

export function TableToolbar<Row>(props: TableToolbarProps<Row>): JSX.Element {
  const { spec, control } = props;
  return (
    <header class="table-toolbar">
      <div class="table-tools">
        <div class="table-title">{props.title}</div>
        <span class="table-count" role="status" aria-live="polite">
          {props.countText}
        </span>
        <SearchBox control={control} noun={spec.noun[1]} />
        <button
          type="button"
          class="button"
          aria-pressed={props.areFiltersOpen}
          onClick={props.onToggleFilters}
        >
          <Icon name="filter" />
          Filters
        </button>
        <ColumnMenu spec={spec} columns={props.columns} />
        {props.exportUrl !== null && (
          <ExportMenu
            spec={spec}
            columns={props.columns}
            exportUrl={props.exportUrl}
            listUrl={props.listUrl}
          />
        )}
      </div>
      <Chips spec={spec} control={control} />
    </header>
  );
}

function SearchBox({ control, noun }: { control: TableControl; noun: string }): JSX.Element {
  const { state, change } = control;
  const [text, setText] = useDebounced(state.search, (search) =>
    change({ ...state, search, page: 1 }, { replace: true }),
  );
  return (
    <span class="table-search">
      <Icon name="search" size={14} />
      <input
        type="search"
        placeholder={`Search ${noun}`}
        aria-label={`Search ${noun}`}
        data-search="table"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          if (text === "") event.currentTarget.blur();
          setText("");
          event.preventDefault();
        }}
      />
      <kbd>/</kbd>
    </span>
  );
}

function Chips<Row>({
  spec,
  control,
}: {
  spec: TableSpec<Row>;
  control: TableControl;
}): JSX.Element | null {
  const { state, change } = control;
  const list = chips(state, spec.columns);
  if (list.length === 0) return null;
  return (
    <ul class="chips" aria-label="Active filters">
      {list.map(({ filter, label }) => (
        <li key={filter ?? "search"} class="chip">
          {label}
          <button
            type="button"
            aria-label={`Remove: ${label}`}
            onClick={() =>
              change(
                filter === null ? { ...state, search: "", page: 1 } : withFilter(state, filter, ""),
              )
            }
          >
            <Icon name="close" size={12} />
          </button>
        </li>
      ))}
      <li>
        <button type="button" class="link-button" onClick={() => change(withoutFilters(state))}>
          Clear all
        </button>
      </li>
    </ul>
  );
}

function ColumnMenu<Row>({
  spec,
  columns,
}: {
  spec: TableSpec<Row>;
  columns: ColumnChoice<Row>;
}): JSX.Element {
  return (
    <MenuButton label="Choose columns" class="icon-button" face={<Icon name="columns" />}>
      <fieldset class="menu-list">
        <legend>Columns</legend>
        {spec.columns.slice(1).map((column) => (
          <label key={column.key} class="menu-check">
            <input
              type="checkbox"
              checked={columns.isShown(column.key)}
              onChange={() => columns.toggle(column.key)}
            />
            {column.title}
          </label>
        ))}
        <button type="button" class="link-button" onClick={columns.reset}>
          Reset
        </button>
      </fieldset>
    </MenuButton>
  );
}

/** Filtered rows as tab-separated text, the columns that are shown; at most `COPY_LIMIT`. */
async function fetchTsv<Row>(
  columns: ColumnChoice<Row>,
  listUrl: (page: number, pageSize: number) => string,
): Promise<{ text: string; rows: number; count: number }> {
  const header = columns.shown.map((column) => headerText(column.title, column.unit));
  const lines = [tsvLine(header)];
  let count = 0;
  for (let page = 1; lines.length <= COPY_LIMIT; page += 1) {
    const answer = await getJson<ListPage<Row>>(listUrl(page, COPY_PAGE));
    count = answer.count;
    for (const row of answer.results) {
      lines.push(tsvLine(columns.shown.map((column) => column.plain(row))));
    }
    if (page * COPY_PAGE >= count) break;
  }
  return { text: lines.join("\n"), rows: lines.length - 1, count };
}

/** Times are copied as the exact ns, so that is what the header says. */
function headerText(title: string, unit: string | undefined): string {
  return unit === undefined ? title : `${title} (ns)`;
}

function ExportMenu<Row>({
  spec,
  columns,
  exportUrl,
  listUrl,
}: {
  spec: TableSpec<Row>;
  columns: ColumnChoice<Row>;
  exportUrl: (format: ExportFormat) => string;
  listUrl: (page: number, pageSize: number) => string;
}): JSX.Element {
  const [message, setMessage] = useState("");
  const copy = async () => {
    setMessage("Copying…");
    try {
      const { text, rows, count } = await fetchTsv(columns, listUrl);
      await navigator.clipboard.writeText(text);
      const all = rows === count ? "" : ` of ${count}: the rest is in the exports`;
      setMessage(`Copied ${countOf(rows, spec.noun)}${all}`);
    } catch {
      setMessage("Could not copy: use an export instead");
    }
  };
  return (
    <MenuButton label="Export" class="icon-button" face={<Icon name="download" />}>
      <div class="menu-list">
        <p class="menu-note">All rows that fit the filters</p>
        {EXPORTS.map(({ format, label }) => (
          <a key={format} class="menu-item" href={exportUrl(format)} download>
            {label}
          </a>
        ))}
        <button type="button" class="menu-item" onClick={() => void copy()}>
          Copy to the clipboard
        </button>
        <p class="menu-note" role="status">
          {message}
        </p>
      </div>
    </MenuButton>
  );
}
