/** The rows of a comparison with their verdicts, and the iterations of the chosen one. */

import type { JSX } from "preact";
import { apiUrl } from "../../api/client";
import type { CompareRow, RowSamples } from "../../api/types";
import { useResource } from "../../api/useResource";
import { t } from "../../i18n";
import { formatTimeIn } from "../../lib/units";
import { navigate } from "../../state/location";
import { Name } from "../../ui/Name";
import { ErrorNote, Skeleton } from "../../ui/states";
import { rowPath, shownTimes } from "./model";
import { changeText, Strips } from "./Pictures";

const MOST_ROWS = 100;

export interface Numbered {
  readonly row: CompareRow;
  /** Its number in the comparison. */
  readonly number: number;
  /** Times of both sides as shown. Unit: µs. */
  readonly times: readonly [base: number, next: number];
}

/** Rows with a verdict and below a module. */
export function chosenRows(
  rows: readonly CompareRow[],
  verdict: string | null,
  module: string | null,
): Numbered[] {
  const times = shownTimes(rows);
  return rows
    .map((row, number) => ({ row, number, times: times[number] ?? ([0, 0] as const) }))
    .filter(({ row }) => verdict === null || row.verdict === verdict)
    .filter(({ row }) => module === null || `/${rowPath(row).join("/")}/`.startsWith(`${module}/`));
}

const VERDICTS = {
  faster: t("faster"),
  slower: t("slower"),
  same: t("same"),
  "cannot tell": t("cannot tell"),
} as const;

export function verdictText(verdict: string, within_pct: number | null = null): string {
  if (verdict === "same" && within_pct !== null) {
    return t("same (within {pct} %)", { pct: within_pct.toFixed(1) });
  }
  return verdict in VERDICTS ? VERDICTS[verdict as keyof typeof VERDICTS] : verdict;
}

export function RowsTable(props: {
  rows: readonly Numbered[];
  chosen: number | null;
  params: { base: string; new: string };
}): JSX.Element {
  const shown = props.rows.slice(0, MOST_ROWS);
  const rest = props.rows.slice(MOST_ROWS);
  return (
    <div class="compare-rows">
      <table>
        <thead>
          <tr>
            <th scope="col">{t("Op")}</th>
            <th scope="col">{t("Class")}</th>
            <th scope="col" class="is-number">
              {t("Base (ms)")}
            </th>
            <th scope="col" class="is-number">
              {t("New (ms)")}
            </th>
            <th scope="col" class="is-number">
              {t("Difference")}
            </th>
            <th scope="col">{t("Verdict")}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((one) => (
            <Line key={one.number} {...one} isOpen={one.number === props.chosen} {...props} />
          ))}
          {rest.length > 0 && (
            <tr>
              <td colSpan={2}>{t("{count} other rows", { count: rest.length })}</td>
              <Times rows={rest} />
              <td />
            </tr>
          )}
        </tbody>
        <tfoot>
          <tr>
            <td colSpan={2}>{t("Sum")}</td>
            <Times rows={props.rows} />
            <td />
          </tr>
        </tfoot>
      </table>
    </div>
  );
}

function Times({ rows }: { rows: readonly Pick<Numbered, "times">[] }): JSX.Element {
  const base = rows.reduce((total, one) => total + one.times[0], 0) * 1000;
  const next = rows.reduce((total, one) => total + one.times[1], 0) * 1000;
  return (
    <>
      <td class="is-number">{formatTimeIn(base, "ms")}</td>
      <td class="is-number">{formatTimeIn(next, "ms")}</td>
      <td class="is-number">{changeText({ difference_ns: next - base })}</td>
    </>
  );
}

function Line(props: {
  row: CompareRow;
  number: number;
  times: Numbered["times"];
  isOpen: boolean;
  params: { base: string; new: string };
}): JSX.Element {
  const { row, number, isOpen } = props;
  const name = `${row.module}${row.op}`;
  const toggle = () => navigate({ row: isOpen ? null : String(number) }, { replace: true });
  return (
    <>
      <tr class={isOpen ? "is-open" : ""}>
        <th scope="row">
          <button type="button" class="compare-open" aria-expanded={isOpen} onClick={toggle}>
            <Name name={row.direction === "" ? name : `${name} (${row.direction})`} />
          </button>
        </th>
        <td>{row.reason === "" ? row.class : `${row.class}: ${row.reason}`}</td>
        <Times rows={[props]} />
        <td class={`is-${row.verdict.replace(" ", "-")}`}>
          {verdictText(row.verdict, row.within_pct)}
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td colSpan={6}>
            <Detail {...props} />
          </td>
        </tr>
      )}
    </>
  );
}

function Detail({ row, number, params }: Parameters<typeof Line>[0]): JSX.Element {
  const found = useResource<RowSamples>(apiUrl("compare/row/", { ...params, row: number }));
  if (found.error !== null) return <ErrorNote error={found.error} onRetry={found.reload} />;
  if (found.data === null) return <Skeleton lines={2} />;
  const interval = row.interval_ns;
  return (
    <div class="compare-detail">
      <Strips base={found.data.base_ns} next={found.data.new_ns} />
      {interval !== null && (
        <p>
          {t("95 % interval of the difference: {low} to {high}", {
            low: changeText({ difference_ns: interval[0] }),
            high: changeText({ difference_ns: interval[1] }),
          })}
        </p>
      )}
      {row.base_name !== "" && <p>{t("In the base: {name}", { name: row.base_name })}</p>}
      {row.base_kernels.join() !== row.new_kernels.join() && (
        <p>
          {t("Other kernels: {base} → {next}", {
            base: row.base_kernels.join(", ") || "–",
            next: row.new_kernels.join(", ") || "–",
          })}
        </p>
      )}
    </div>
  );
}
