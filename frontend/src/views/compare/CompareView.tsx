/** Two sides compared: what changed in the step, by how much, and how certain that is. */

import type { JSX } from "preact";
import { apiUrl } from "../../api/client";
import type { CompareModules, ComparisonSummary } from "../../api/types";
import { useResource } from "../../api/useResource";
import { t } from "../../i18n";
import { navigate, useQuery } from "../../state/location";
import { useScope } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { Segmented } from "../../ui/Segmented";
import { Empty, ErrorNote, Skeleton } from "../../ui/states";
import { changeText, Icicle, Waterfall } from "./Pictures";
import { RowsTable, verdictText } from "./Rows";
import { Sides } from "./Sides";

export function CompareView(): JSX.Element {
  const query = useQuery();
  const scope = useScope();
  const base = query.get("base") ?? "";
  const next = query.get("new") ?? `${scope.profile.id}@${scope.aggregation.id}`;
  return (
    <div class="view view-compare">
      <h1 class="visually-hidden">{t("Compare")}</h1>
      <Panel title={t("What is compared")} span={12}>
        <Sides base={base} next={next} />
      </Panel>
      {base === "" || next === "" ? (
        <Panel title={t("Result")} span={12}>
          <Empty title={t("Choose what to compare with")}>
            {t(
              "One capture a side shows what changed. Two or more a side also show whether it is more than runs differ.",
            )}
          </Empty>
        </Panel>
      ) : (
        <Result params={{ base, new: next }} />
      )}
    </div>
  );
}

function Result({ params }: { params: { base: string; new: string } }): JSX.Element {
  const found = useResource<ComparisonSummary>(apiUrl("compare/summary/", params));
  if (found.error !== null) {
    return (
      <Panel title={t("Result")} span={12}>
        <ErrorNote error={found.error} onRetry={found.reload} />
      </Panel>
    );
  }
  if (found.data === null) {
    return (
      <Panel title={t("Result")} span={12}>
        <Skeleton lines={8} />
      </Panel>
    );
  }
  return <Found found={found.data} params={params} />;
}

/** No row is open, and the first page is shown. */
const FIRST = { row: null, "rows.page": null };

function Modules(props: {
  params: { base: string; new: string };
  chosen: string | null;
  onChoose: (path: string) => void;
}): JSX.Element {
  const found = useResource<CompareModules>(apiUrl("compare/modules/", props.params));
  if (found.error !== null) return <ErrorNote error={found.error} onRetry={found.reload} />;
  if (found.data === null) return <Skeleton lines={4} />;
  return <Icicle {...props} modules={found.data.modules} />;
}

function Found(props: {
  found: ComparisonSummary;
  params: { base: string; new: string };
}): JSX.Element {
  const { found } = props;
  const query = useQuery();
  const verdict = query.get("verdict") ?? null;
  const module = query.get("module") ?? null;
  const row = query.get("row");
  const choose = (path: string) => navigate({ module: path === module ? null : path, ...FIRST });
  return (
    <>
      <Panel title={t("Result")} span={12}>
        <Headline found={found} />
      </Panel>
      <Panel title={t("From base to new, by class")} span={12}>
        <Scrolled label={t("From base to new, by class")}>
          <Waterfall found={found} />
        </Scrolled>
      </Panel>
      <Panel title={t("Modules")} span={12}>
        <Scrolled label={t("Modules")}>
          <Modules params={props.params} chosen={module} onChoose={choose} />
        </Scrolled>
      </Panel>
      <Panel
        title={t("Ops")}
        span={12}
        actions={
          <Segmented
            label={t("Verdict")}
            choices={[
              [null, t("All")],
              ["slower", verdictText("slower")],
              ["faster", verdictText("faster")],
              ["same", verdictText("same")],
              ["cannot tell", verdictText("cannot tell")],
            ]}
            value={verdict}
            onChange={(value) => navigate({ verdict: value, ...FIRST })}
          />
        }
      >
        {module !== null && (
          <button type="button" class="chip" onClick={() => choose(module)}>
            {t("Only {module}", { module })} ×
          </button>
        )}
        <RowsTable
          found={found}
          verdict={verdict}
          module={module}
          chosen={row === undefined ? null : Number(row)}
          params={props.params}
        />
      </Panel>
    </>
  );
}

/** A picture keeps the size of its texts: where it has no room, it scrolls, also by key. */
function Scrolled(props: { label: string; children: JSX.Element }): JSX.Element {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset draws a frame of its own
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must have the focus to be scrolled by key
    <div class="compare-scroll" role="group" aria-label={props.label} tabIndex={0}>
      {props.children}
    </div>
  );
}

function Headline({ found }: { found: ComparisonSummary }): JSX.Element {
  const interval = found.interval_ns;
  return (
    <div class="compare-headline">
      <p class="compare-words">{found.headline}</p>
      <p>
        <span class={`is-${found.verdict.replace(" ", "-")}`}>{verdictText(found.verdict)}</span>
        {". "}
        {interval === null
          ? t("Too few iterations for an interval.")
          : t("95 % interval of the difference: {low} to {high}", {
              low: changeText({ difference_ns: interval[0] }),
              high: changeText({ difference_ns: interval[1] }),
            })}
      </p>
      {found.notes.map((note) => (
        <p key={note}>{note}</p>
      ))}
      {found.setup.length === 0 ? (
        <p>{t("No difference of the set-up was recorded.")}</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">{t("What else differs")}</th>
              <th scope="col">{t("Base")}</th>
              <th scope="col">{t("New")}</th>
            </tr>
          </thead>
          <tbody>
            {found.setup.map((one) => (
              <tr key={one.key}>
                <th scope="row">{one.key}</th>
                <td>{one.base || t("not recorded")}</td>
                <td>{one.new || t("not recorded")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
