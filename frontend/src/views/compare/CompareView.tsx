/** Two sides compared: what changed in the step, by how much, and how certain that is. */

import type { JSX } from "preact";
import { apiUrl } from "../../api/client";
import type { CompareModules, ComparisonSummary } from "../../api/types";
import { useResource } from "../../api/useResource";
import { t } from "../../i18n";
import { typeset } from "../../lib/text";
import { durationText, formatFixed } from "../../lib/units";
import { navigate, useQuery } from "../../state/location";
import { useScope } from "../../state/scope";
import { Button } from "../../ui/Button";
import { PageAnchor } from "../../ui/PageLink";
import { Panel } from "../../ui/Panel";
import { Segmented } from "../../ui/Segmented";
import { Empty, ErrorNote, Skeleton } from "../../ui/states";
import { captures, type StepChange, stepChange } from "./model";
import { changeText, Icicle, Waterfall } from "./Pictures";
import { RowsTable, verdictText } from "./Rows";
import { Sides } from "./Sides";

export default function CompareView() {
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
              "One capture per side shows what changed; two or more also show whether it is more than run-to-run noise.",
            )}
          </Empty>
        </Panel>
      ) : (
        <Result params={{ base, new: next }} />
      )}
    </div>
  );
}

function Result({ params }: { params: { base: string; new: string } }) {
  const found = useResource<ComparisonSummary>(apiUrl("compare/summary/", params));
  const chosen = captures(`${params.base},${params.new}`).map((one) => one.split("@")[0]);
  // A database of NVIDIA's is compared once it was aggregated, which makes a profile of it.
  const foreign = useScope().profiles.filter(
    ({ id, is_foreign }) => is_foreign === true && chosen.includes(id),
  );
  if (found.error !== null) {
    return (
      <Panel title={t("Result")} span={12}>
        <ErrorNote error={found.error} onRetry={found.reload} />
        {foreign.map(({ id, name }) => (
          <PageAnchor key={id} to={{ profile: id, view: "iterations" }} class="button">
            {t("Aggregate {name}", { name })}
          </PageAnchor>
        ))}
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
}) {
  const found = useResource<CompareModules>(apiUrl("compare/modules/", props.params));
  if (found.error !== null) return <ErrorNote error={found.error} onRetry={found.reload} />;
  if (found.data === null) return <Skeleton lines={4} />;
  return <Icicle {...props} modules={found.data.modules} />;
}

function Found(props: { found: ComparisonSummary; params: { base: string; new: string } }) {
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
      <div class="compare-split">
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
            <Button class="chip" onClick={() => choose(module)}>
              {t("Only {module}", { module })} ×
            </Button>
          )}
          <RowsTable
            found={found}
            verdict={verdict}
            module={module}
            chosen={row === undefined ? null : Number(row)}
            params={props.params}
          />
        </Panel>
        <Panel title={t("Modules")} span={12}>
          <Modules params={props.params} chosen={module} onChoose={choose} />
        </Panel>
      </div>
    </>
  );
}

/** A picture keeps the size of its texts: where it has no room, it scrolls, also by key. */
function Scrolled(props: { label: string; children: JSX.Element }) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset draws a frame of its own
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must have the focus to be scrolled by key
    <div class="compare-scroll" role="group" aria-label={props.label} tabIndex={0}>
      {props.children}
    </div>
  );
}

function Headline({ found }: { found: ComparisonSummary }) {
  return (
    <div class="compare-headline">
      {!found.are_other_programs && <Change change={stepChange(found)} />}
      <p class="compare-words">{typeset(found.headline)}</p>
      {found.notes.map((note) => (
        <p key={note}>{typeset(note)}</p>
      ))}
      <Setup found={found} />
    </div>
  );
}

function Change({ change }: { change: StepChange }) {
  const { base, next, verdict, isPerSample } = change;
  const share = base > 0 ? 100 * (next / base - 1) : null;
  const tone = `is-${verdict.replace(" ", "-")}`;
  const steps = { base: durationText(base), next: durationText(next) };
  return (
    <>
      <div class="compare-result">
        <span class={`compare-share ${tone}`}>
          {share === null ? "–" : `${share < 0 ? "−" : "+"}${formatFixed(Math.abs(share), 1)} %`}
        </span>
        <span class={`compare-badge ${tone}`}>{verdictText(verdict)}</span>
        <span class="compare-steps">
          {isPerSample
            ? t("{base} → {next} per sample", steps)
            : t("{base} → {next} per step", steps)}
        </span>
      </div>
      <IntervalBar change={change} />
    </>
  );
}

/** The difference as a mark and its interval as a bar, around no change. */
function IntervalBar({ change }: { change: StepChange }) {
  if (change.interval === null) {
    return <p class="muted">{t("Too few iterations for an interval.")}</p>;
  }
  const [low, high] = change.interval;
  const at = change.next - change.base;
  const reach = Math.max(Math.abs(low), Math.abs(high), Math.abs(at), 1) * 1.1;
  const place = (value: number) => 50 + (50 * value) / reach;
  return (
    <div class="compare-interval">
      <svg viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">
        <line x1={50} x2={50} y1={0} y2={16} />
        <rect x={place(low)} width={place(high) - place(low)} y={5} height={6} />
        <rect class="compare-mark" x={place(at) - 0.3} width={0.6} y={1} height={14} />
      </svg>
      <span>
        {t("95 % interval of the difference: {low} to {high}", {
          low: changeText({ difference_ns: low }),
          high: changeText({ difference_ns: high }),
        })}
      </span>
    </div>
  );
}

/** Shapes of ops are many, and follow from what else differs. */
const OF_SHAPES = "shapes of ";

/** What else differs, in words; shapes are folded. */
function Setup({ found }: { found: ComparisonSummary }) {
  const [shapes, others] = [true, false].map((isShape) =>
    found.setup.filter((one) => one.key.startsWith(OF_SHAPES) === isShape),
  );
  if (found.setup.length === 0) {
    return <p class="muted">{t("No difference of the set-up was recorded.")}</p>;
  }
  const line = (one: ComparisonSummary["setup"][number]) => (
    <li key={one.key}>
      <b>{one.key}</b>: {one.base || t("not recorded")} → {one.new || t("not recorded")}
    </li>
  );
  return (
    <div class="compare-setup">
      <h3>{t("What else differs")}</h3>
      <ul>{others?.map(line)}</ul>
      {shapes !== undefined && shapes.length > 0 && (
        <details>
          <summary>{t("Shapes of ops")}</summary>
          <ul>{shapes.map(line)}</ul>
        </details>
      )}
    </div>
  );
}
