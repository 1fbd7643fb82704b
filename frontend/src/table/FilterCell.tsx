/** The filter under a column's header, by kind: contains, from-to, yes/no, one of. */

import { useResource } from "../api/useResource";
import { t } from "../i18n";
import { type ColumnModel, fromApiNumber, toApiNumber, withFilter } from "./model";
import { useDebounced } from "./useDebounced";
import type { TableControl } from "./useTableState";

interface FilterProps {
  readonly column: ColumnModel;
  readonly control: TableControl;
}

export function FilterCell(props: FilterProps & { distinctUrl: (column: string) => string }) {
  const { column, control, distinctUrl } = props;
  switch (column.kind) {
    case "number":
      return <NumberFilter column={column} control={control} />;
    case "boolean":
      return <FlagFilter column={column} control={control} />;
    case "choice":
      return <ChoiceFilter column={column} control={control} url={distinctUrl(column.key)} />;
    case "text":
      return <TextFilter column={column} control={control} />;
  }
}

function TextFilter({ column, control }: FilterProps) {
  const name = `${column.key}__icontains`;
  const [text, setText] = useDebounced(control.state.filters[name] ?? "", (value) =>
    control.change(withFilter(control.state, name, value), { replace: true }),
  );
  return (
    <input
      class="filter-input"
      type="text"
      aria-label={t("{column} contains", { column: column.title })}
      placeholder={t("contains")}
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
    />
  );
}

/** Yes or no; and no where another flag says that it could be yes. */
function FlagFilter({ column, control }: FilterProps) {
  const { state } = control;
  const { key, lacking } = column;
  const value = state.filters[key] ?? "";
  const isLacking = lacking !== undefined && value === "0" && state.filters[lacking.key] === "1";
  const change = (next: string) => {
    const own = withFilter(state, key, next === LACKING ? "0" : next);
    const other = next === LACKING ? "1" : "";
    control.change(
      lacking !== undefined && (isLacking || next === LACKING)
        ? withFilter(own, lacking.key, other)
        : own,
    );
  };
  const options = [
    { value: "1", label: t("yes") },
    { value: "0", label: t("no") },
    ...(lacking === undefined ? [] : [{ value: LACKING, label: lacking.label }]),
  ];
  return <Choices {...{ column, options, change }} value={isLacking ? LACKING : value} />;
}

const LACKING = "lacking";

interface ChoicesProps {
  readonly column: ColumnModel;
  readonly value: string;
  readonly options: readonly { readonly value: string; readonly label: string }[];
  readonly change: (value: string) => void;
}

function Choices({ column, value, options, change }: ChoicesProps) {
  return (
    <select
      class="filter-input"
      aria-label={column.title}
      value={value}
      onChange={(event) => change(event.currentTarget.value)}
    >
      <option value="">{t("any")}</option>
      {options.map((option) => (
        <option key={option.value} value={option.value}>
          {option.label}
        </option>
      ))}
    </select>
  );
}

interface Distinct {
  readonly results: readonly { readonly value: string | number | null; readonly count: number }[];
}

/** One of the values that the column has. */
function ChoiceFilter({ column, control, url }: FilterProps & { url: string }) {
  const name = `${column.key}__in`;
  const distinct = useResource<Distinct>(url);
  const chosen = control.state.filters[name] ?? "";
  const values = new Set(distinct.data?.results.map((item) => String(item.value ?? "")) ?? []);
  if (chosen !== "") values.add(chosen);
  values.delete("");
  const options = [...values].sort().map((value) => ({ value, label: value }));
  const change = (next: string) => control.change(withFilter(control.state, name, next));
  return <Choices {...{ column, options, change }} value={chosen} />;
}

function NumberFilter({ column, control }: FilterProps) {
  return (
    <span class="filter-range">
      <BoundFilter column={column} control={control} suffix="__gte" word={t("at least")} sign="≥" />
      <BoundFilter column={column} control={control} suffix="__lte" word={t("at most")} sign="≤" />
    </span>
  );
}

function BoundFilter(props: FilterProps & { suffix: string; word: string; sign: string }) {
  const { column, control, suffix, word, sign } = props;
  const name = `${column.key}${suffix}`;
  const bound = control.state.filters[name];
  const [text, setText] = useDebounced(
    bound === undefined ? "" : fromApiNumber(bound, column),
    (typed) => {
      const value = toApiNumber(typed, column);
      if (value === null && typed.trim() !== "") return;
      control.change(withFilter(control.state, name, value ?? ""), { replace: true });
    },
  );
  const isWrong = text.trim() !== "" && toApiNumber(text, column) === null;
  const shown = column.shownUnit ?? column.unit;
  const unit = shown === undefined ? "" : ` ${t("in {unit}", { unit: shown })}`;
  return (
    <input
      class="filter-input"
      type="text"
      inputMode="decimal"
      aria-label={`${column.title} ${word}${unit}`}
      aria-invalid={isWrong}
      title={isWrong ? t("Type a number") : undefined}
      placeholder={sign}
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
    />
  );
}
