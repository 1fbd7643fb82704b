/** Below a table: which rows these are, how many a page, and the way to the others. */

import { t } from "../i18n";
import { formatInt } from "../lib/units";
import { IconButton } from "../ui/Button";
import type { IconName } from "../ui/icons";
import { PAGE_SIZES, pageCount } from "./model";
import type { TableControl } from "./useTableState";

export function Pager({ control, count }: { control: TableControl; count: number | null }) {
  const { state, change } = control;
  const last = pageCount(count ?? 0, state.pageSize);
  const go = (page: number) => change({ ...state, page });
  return (
    <footer class="pager">
      <span class="pager-rows">{rowsText(state.page, state.pageSize, count)}</span>
      <label class="pager-size">
        <span>{t("Rows per page")}</span>
        <select
          class="select"
          value={String(state.pageSize)}
          onChange={(event) =>
            change({ ...state, pageSize: Number(event.currentTarget.value), page: 1 })
          }
        >
          {PAGE_SIZES.map((size) => (
            <option key={size} value={String(size)}>
              {size}
            </option>
          ))}
        </select>
      </label>
      <span class="pager-pages">
        <PageButton
          icon="first"
          label={t("First page")}
          to={1}
          control={control}
          last={last}
          go={go}
        />
        <PageButton
          icon="chevronLeft"
          label={t("Previous page")}
          to={state.page - 1}
          control={control}
          last={last}
          go={go}
        />
        <span class="pager-page">
          {t("Page {page} of {last}", { page: formatInt(state.page), last: formatInt(last) })}
        </span>
        <PageButton
          icon="chevronRight"
          label={t("Next page")}
          to={state.page + 1}
          control={control}
          last={last}
          go={go}
        />
        <PageButton
          icon="last"
          label={t("Last page")}
          to={last}
          control={control}
          last={last}
          go={go}
        />
      </span>
    </footer>
  );
}

function rowsText(page: number, pageSize: number, count: number | null): string {
  if (count === null || count === 0) return "";
  const first = (page - 1) * pageSize + 1;
  return t("Rows {first}–{last}", {
    first: formatInt(first),
    last: formatInt(Math.min(count, first + pageSize - 1)),
  });
}

function PageButton(props: {
  icon: IconName;
  label: string;
  to: number;
  last: number;
  control: TableControl;
  go: (page: number) => void;
}) {
  const isOff = props.to < 1 || props.to > props.last || props.to === props.control.state.page;
  return (
    <IconButton
      icon={props.icon}
      label={props.label}
      disabled={isOff}
      onClick={() => props.go(props.to)}
    />
  );
}
