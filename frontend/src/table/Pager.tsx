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
  const step = (icon: IconName, label: string, to: number) => (
    <IconButton
      icon={icon}
      label={label}
      disabled={to < 1 || to > last || to === state.page}
      onClick={() => change({ ...state, page: to })}
    />
  );
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
        {step("first", t("First page"), 1)}
        {step("chevronLeft", t("Previous page"), state.page - 1)}
        <span class="pager-page">
          {t("Page {page} of {last}", { page: formatInt(state.page), last: formatInt(last) })}
        </span>
        {step("chevronRight", t("Next page"), state.page + 1)}
        {step("last", t("Last page"), last)}
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
