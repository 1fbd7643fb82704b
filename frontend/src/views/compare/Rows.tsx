/** The rows of a comparison with their verdicts, and the iterations of the chosen one. */

import { apiUrl } from "../../api/client";
import type { ListPage } from "../../api/lists";
import type { CompareOp, ComparisonSummary, NumberedCompareRow, RowSamples } from "../../api/types";
import { useResource } from "../../api/useResource";
import { t } from "../../i18n";
import { shortNames } from "../../lib/names";
import { className } from "../../lib/timeClasses";
import { formatTimeIn } from "../../lib/units";
import { navigate, useQuery } from "../../state/location";
import { Pager } from "../../table/Pager";
import type { TableSpec } from "../../table/spec";
import { useUrlTable } from "../../table/useTableState";
import { Button } from "../../ui/Button";
import { Name } from "../../ui/Name";
import { ErrorNote, Skeleton } from "../../ui/states";
import { ns } from "./model";
import { changeText, Strips } from "./Pictures";

const ROWS: Pick<TableSpec<CompareOp>, "id" | "defaults"> = {
  id: "rows",
  defaults: { sort: "row", pageSize: 25 },
};

/** Room of the names, as in the style sheet, and width of a letter. */
const NAME_PX = 420;
const NAME_SHARE = 0.4;
const LETTER_PX = 7.9;

interface Sides {
  readonly base: string;
  readonly new: string;
}

const VERDICTS = {
  faster: t("faster"),
  slower: t("slower"),
  same: t("same"),
  "cannot tell": t("cannot tell"),
  "not confirmed": t("not confirmed"),
} as const;

export function verdictText(verdict: string, within_pct: number | null = null): string {
  if (verdict === "same" && within_pct !== null) {
    return t("same (within {pct} %)", { pct: within_pct.toFixed(1) });
  }
  return verdict in VERDICTS ? VERDICTS[verdict as keyof typeof VERDICTS] : verdict;
}

/** The rows with a verdict and below a module, page by page. */
export function RowsTable(props: {
  found: ComparisonSummary;
  verdict: string | null;
  module: string | null;
  chosen: number | null;
  params: Sides;
}) {
  const control = useUrlTable<CompareOp>(ROWS, useQuery());
  const { verdict, module, params } = props;
  const page = useResource<ListPage<CompareOp>>(
    apiUrl("compare/ops/", {
      ...params,
      ...(verdict === null ? {} : { verdict__in: verdict }),
      ...(module === null ? {} : { path__startswith: `${module}/` }),
      page: control.state.page,
      page_size: control.state.pageSize,
    }),
  );
  if (page.error !== null) return <ErrorNote error={page.error} onRetry={page.reload} />;
  if (page.data === null) return <Skeleton lines={8} />;
  const whole = verdict === null && module === null;
  const largest = Math.max(...page.data.results.map(reachOf), 1);
  const width = Math.min(NAME_PX, window.innerWidth * NAME_SHARE);
  const names = shortNames(page.data.results.map(nameOf), Math.floor(width / LETTER_PX));
  return (
    <div class={`compare-rows ${page.isStale ? "is-stale" : ""}`}>
      <table>
        <thead>
          <tr>
            <th
              scope="col"
              title={t("GPU time of the op; waiting for its work and launching have their own row")}
            >
              {t("Op")}
            </th>
            <th scope="col" class="deltas-cell">
              {t("By class")}
            </th>
            <th scope="col" class="is-number">
              {t("Base (ms/step)")}
            </th>
            <th scope="col" class="is-number">
              {t("New (ms/step)")}
            </th>
            <th scope="col" class="is-number">
              {t("Difference")}
            </th>
            <th scope="col">{t("Verdict")}</th>
          </tr>
        </thead>
        <tbody>
          {page.data.results.map((row) => (
            <Line
              key={row.row}
              row={row}
              short={names.text(nameOf(row))}
              largest={largest}
              isOpen={row.row === props.chosen}
              params={params}
            />
          ))}
        </tbody>
        {whole && (
          <tfoot>
            <tr>
              <td>{t("Sum of all rows")}</td>
              <td class="deltas-cell" />
              <Times
                base={Math.round(ns(props.found.base.step_ns) / 1000)}
                next={Math.round(ns(props.found.new.step_ns) / 1000)}
              />
              <td />
            </tr>
          </tfoot>
        )}
      </table>
      <Pager control={control} count={page.data.count} />
    </div>
  );
}

/** Times of both sides as shown. Unit: µs. */
function Times({ base, next }: { base: number; next: number }) {
  return (
    <>
      <td class="is-number">{formatTimeIn(base * 1000, "ms")}</td>
      <td class="is-number">{formatTimeIn(next * 1000, "ms")}</td>
      <td class="is-number">{changeText({ difference_ns: (next - base) * 1000 })}</td>
    </>
  );
}

/** How far the parts of an op reach from its base, to one side. */
function reachOf({ parts }: CompareOp): number {
  const changes = parts.map((part) => part.shown_new_us - part.shown_base_us);
  const sumOf = (sign: number) =>
    changes.reduce((sum, change) => sum + Math.max(sign * change, 0), 0);
  return Math.max(sumOf(1), sumOf(-1));
}

/** Classes of GPU work have the colors of the guide; waiting and the CPU have others. */
const TONES: Readonly<Record<string, string>> = {
  "tensor core compute": "tc",
  "other compute": "non_tc",
  communication: "communication",
  copy: "memory",
  copies: "memory",
  set: "memory",
};

function toneOf(part: NumberedCompareRow): string {
  return TONES[part.class] ?? "waiting-part";
}

function partName(part: NumberedCompareRow): string {
  const name = className(part.class);
  return part.reason === "" ? name : `${name}: ${part.reason}`;
}

/** What grew to the right of the line, what shrank to the left, class by class. */
function Deltas({ op, largest }: { op: CompareOp; largest: number }) {
  const side = (sign: number) =>
    op.parts
      .map((part) => ({ part, change: sign * (part.shown_new_us - part.shown_base_us) }))
      .filter(({ change }) => change > 0)
      .map(({ part, change }) => (
        <i
          key={part.row}
          class={`part-${toneOf(part)}`}
          style={{ width: `${(100 * change) / largest}%` }}
          title={`${partName(part)} ${changeText({
            difference_ns: sign * change * 1000,
          })}`}
        />
      ));
  return (
    <span class="deltas" aria-hidden="true">
      <span class="deltas-less">{side(-1)}</span>
      <span class="deltas-more">{side(1)}</span>
    </span>
  );
}

interface LineProps {
  readonly row: CompareOp;
  readonly short: string;
  readonly largest: number;
  readonly isOpen: boolean;
  readonly params: Sides;
}

/** The op; of time that none owns what it is. */
function nameOf({ module, op, parts: [first] }: CompareOp): string {
  return (
    `${module}${op}`.replace(/(.)\/$/, "$1") || first?.reason || className(first?.class ?? "–")
  );
}

function Line({ row, short, largest, isOpen, params }: LineProps) {
  const number = row.row;
  const [first] = row.parts;
  const toggle = () => navigate({ row: isOpen ? null : String(number) }, { replace: true });
  return (
    <>
      <tr class={isOpen ? "is-open" : ""}>
        <th scope="row">
          <Button class="compare-open" aria-expanded={isOpen} onClick={toggle}>
            <Name name={nameOf(row)} short={short} />
          </Button>{" "}
          <span class="muted">
            {row.direction}
            {row.op !== "" && !row.is_gpu_time && ` · ${t("waiting and launching")}`}
          </span>
        </th>
        <td class="deltas-cell">
          <Deltas op={row} largest={largest} />
        </td>
        <Times base={row.shown_base_us} next={row.shown_new_us} />
        <td class={`is-${row.verdict.replace(" ", "-")}`}>
          {verdictText(row.verdict, first?.within_pct ?? null)}
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td colSpan={6}>
            <Parts parts={row.parts} params={params} />
          </td>
        </tr>
      )}
    </>
  );
}

/** The classes of an op, and the iterations of the one that changed most. */
function Parts(props: { parts: readonly NumberedCompareRow[]; params: Sides }) {
  const { parts, params } = props;
  return (
    <>
      <table class="compare-parts">
        <tbody>
          {parts.map((part) => (
            <tr key={part.row}>
              <th scope="row">
                <span class={`swatch part-${toneOf(part)}`} />
                {partName(part)}
              </th>
              <Times base={part.shown_base_us} next={part.shown_new_us} />
            </tr>
          ))}
        </tbody>
      </table>
      {parts[0] !== undefined && <Detail row={parts[0]} params={params} />}
    </>
  );
}

function Detail({ row, params }: { row: NumberedCompareRow; params: Sides }) {
  const found = useResource<RowSamples>(apiUrl("compare/row/", { ...params, row: row.row }));
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
