/** Above a table: title, live count, search, filters, columns, export. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { isReport } from "../api/source";
import { t } from "../i18n";
import { copyText } from "../lib/clipboard";
import { saveExport } from "../lib/saveBlob";
import { tsvLine } from "../lib/text";
import { countOf, formatInt, UNKNOWN } from "../lib/units";
import { openDocs } from "../state/location";
import { useScope } from "../state/scope";
import { Button, IconButton } from "../ui/Button";
import { Icon } from "../ui/icons";
import { MenuButton } from "../ui/Popover";
import { ScaleSwitch } from "../ui/ScaleSwitch";
import { FETCH_LIMIT, type Fetched, fetchRows } from "./fetchRows";
import { type ColumnModel, chips, withFilter, withoutFilters } from "./model";
import { printTable } from "./print";
import type { Column, TableSpec } from "./spec";
import type { ColumnChoice } from "./useColumns";
import { useDebounced } from "./useDebounced";
import type { TableControl } from "./useTableState";

/** The export formats of the server; a PDF contains the first rows only, with a note. */
const EXPORTS = [
  { format: "xlsx", label: "Excel", isInReport: false },
  { format: "pdf", label: "PDF", isInReport: false },
  { format: "csv", label: "CSV", isInReport: true },
  { format: "json", label: "JSON", isInReport: true },
] as const;

export type ExportFormat = (typeof EXPORTS)[number]["format"];

export function TableToolbar<Row>(props: {
  spec: TableSpec<Row>;
  control: TableControl;
  columns: ColumnChoice<Row>;
  title: ComponentChildren;
  /** The title as text. */
  caption: string;
  countText: string;
  areFiltersOpen: boolean;
  onToggleFilters: () => void;
  exportUrl: ((format: ExportFormat) => string) | null;
  listUrl: (page: number, pageSize: number) => string;
}) {
  const { spec, control } = props;
  return (
    <header class="table-toolbar">
      <div class="table-tools">
        <div class="table-title">{props.title}</div>
        <span class="table-count" role="status" aria-live="polite">
          {props.countText}
        </span>
        <AboutButton />
        {props.columns.shown.some((column) => column.isSum === true) && <ScaleSwitch />}
        <SearchBox control={control} noun={spec.noun[1]} />
        <Button aria-pressed={props.areFiltersOpen} onClick={props.onToggleFilters}>
          <Icon name="filter" />
          {t("Filters")}
        </Button>
        <ColumnMenu spec={spec} columns={props.columns} />
        {props.exportUrl !== null && (
          <ExportMenu
            spec={spec}
            caption={props.caption}
            chips={chips(control.state, props.columns.all).map((chip) => chip.label)}
            columns={props.columns}
            exportUrl={props.exportUrl}
            listUrl={props.listUrl}
          />
        )}
      </div>
      <Chips columns={props.columns.all} control={control} />
    </header>
  );
}

/** Opens the documentation of the view, which explains the columns. */
export function AboutButton() {
  return (
    <IconButton
      icon="info"
      label={t("What the columns mean")}
      size={14}
      class="table-about"
      onClick={openDocs}
    />
  );
}

function SearchBox({ control, noun }: { control: TableControl; noun: string }) {
  const { state, change } = control;
  return (
    <SearchField
      label={t("Search {things}", { things: noun })}
      value={state.search}
      onChange={(search) => change({ ...state, search, page: 1 }, { replace: true })}
    />
  );
}

/** The field that the key `/` goes to. */
export function SearchField(props: {
  label: string;
  value: string;
  class?: string;
  onChange: (text: string) => void;
}) {
  const [text, setText] = useDebounced(props.value, props.onChange);
  return (
    <span class={`table-search ${props.class ?? ""}`}>
      <Icon name="search" size={14} />
      <input
        type="search"
        placeholder={props.label}
        aria-label={props.label}
        data-search="table"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          if (text === "") {
            // Nothing to clear: the key is for what the table is in.
            event.currentTarget.blur();
            return;
          }
          setText("");
          event.preventDefault();
        }}
      />
      <kbd>/</kbd>
    </span>
  );
}

function Chips<Row>(props: { columns: readonly Column<Row>[]; control: TableControl }) {
  const { columns, control } = props;
  const { state, change } = control;
  const list = chips(state, columns);
  if (list.length === 0) return null;
  return (
    <ul class="chips" aria-label={t("Active filters")}>
      {list.map(({ filter, label }) => (
        <li key={filter ?? "search"} class="chip">
          <span class="chip-label" title={label}>
            {label}
          </span>
          <button
            type="button"
            aria-label={t("Remove: {filter}", { filter: label })}
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
        <Button class="link-button" onClick={() => change(withoutFilters(state))}>
          {t("Clear all")}
        </Button>
      </li>
    </ul>
  );
}

export function ColumnMenu<Row>(props: {
  spec: Pick<TableSpec<Row>, "columns">;
  columns: ColumnChoice<Row>;
}) {
  const { spec, columns } = props;
  return (
    <MenuButton label={t("Choose columns")} class="icon-button" face={<Icon name="columns" />}>
      <fieldset class="menu-list">
        <legend>{t("Columns")}</legend>
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
        <Button class="link-button" onClick={columns.reset}>
          {t("Reset")}
        </Button>
      </fieldset>
    </MenuButton>
  );
}

/** Times are printed in exact ns and sums as totals, so the header says so. */
function headerText({ title, unit, isSum }: ColumnModel): string {
  const words = [unit === undefined ? "" : "ns", isSum === true ? t("total") : ""];
  const text = words.filter((word) => word !== "").join(" ");
  return text === "" ? title : `${title} (${text})`;
}

function plainText(value: unknown): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "boolean") return value ? t("yes") : t("no");
  return typeof value === "number" ? value.toLocaleString("en-US") : String(value);
}

export function ExportMenu<Row>(props: {
  spec: TableSpec<Row>;
  caption: string;
  columns: ColumnChoice<Row>;
  chips: readonly string[];
  exportUrl: (format: ExportFormat) => string;
  listUrl: (page: number, pageSize: number) => string;
}) {
  const { spec, columns, exportUrl, listUrl } = props;
  const { profile, aggregation, domain } = useScope();
  const [message, setMessage] = useState("");
  const header = columns.shown.map((column) => headerText(column));
  /** Fetches all rows, passes them to `use`, and shows their number. */
  const withRows = async (doing: string, use: (fetched: Fetched<Row>) => Promise<string>) => {
    setMessage(doing);
    try {
      setMessage(await use(await fetchRows<Row>(listUrl)));
    } catch {
      setMessage(t("Failed: use an export instead"));
    }
  };
  const copy = () =>
    withRows(t("Copying…"), async ({ rows, count }) => {
      const lines = rows.map((row) => tsvLine(columns.shown.map((column) => column.plain(row))));
      // The columns have the names that the exports give them.
      const names = columns.shown.map((column) => column.key);
      await copyText([tsvLine(names), ...lines].join("\n"));
      const done = t("Copied {rows}", { rows: countOf(rows.length, spec.noun) });
      return rows.length === count ? done : `${done} ${restText(count)}`;
    });
  const print = () =>
    withRows(t("Preparing…"), async ({ rows, count }) => {
      const scopeText = t("Aggregation #{id}, domain {domain}", { id: aggregation.id, domain });
      const rowsText = countOf(rows.length, spec.noun);
      printTable({
        title: `${profile.name ?? profile.file_name} – ${props.caption}`,
        notes: [
          scopeText,
          rows.length === count ? rowsText : `${rowsText} ${restText(count)}`,
          ...props.chips,
        ],
        header,
        rows: rows.map((row) => columns.shown.map((column) => plainText(column.plain(row)))),
      });
      return "";
    });
  return (
    <MenuButton label={t("Export")} class="icon-button" face={<Icon name="download" />}>
      <div class="menu-list">
        <p class="menu-note">
          {isReport()
            ? t("The rows of this report that fit the filters")
            : t("All rows that fit the filters")}
        </p>
        {EXPORTS.map(({ format, label, isInReport }) =>
          isReport() ? (
            isInReport && (
              <Button
                key={format}
                class="menu-item"
                data-closes
                onClick={() => void saveExport(exportUrl(format))}
              >
                {label}
              </Button>
            )
          ) : (
            <a
              key={format}
              class="menu-item"
              href={exportUrl(format)}
              download
              onClick={(event) =>
                event.currentTarget.closest<HTMLElement>("[popover]")?.hidePopover()
              }
            >
              {label}
            </a>
          ),
        )}
        <Button class="menu-item" onClick={() => void copy()}>
          {t("Copy to the clipboard")}
        </Button>
        <Button class="menu-item" onClick={() => void print()}>
          {t("Print")}
        </Button>
        <p class="menu-note">
          {t("Copy and print: the first {limit} rows, with the visible columns", {
            limit: formatInt(FETCH_LIMIT),
          })}
        </p>
        <p class="menu-note" role="status">
          {message}
        </p>
      </div>
    </MenuButton>
  );
}

/** The note of a table that does not contain all rows. */
function restText(count: number): string {
  return t("of {count}: the rest is in the exports", { count: formatInt(count) });
}
