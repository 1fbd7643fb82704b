/** What limits a step, then the advice with the time that it could save, then DLProf's list. */

import type { ComponentChildren, JSX } from "preact";
import type { ListPage } from "../../api/lists";
import type { AdviceRow, Recommendation, Verdict } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { splitLinks } from "../../lib/text";
import { currentQuery, navigate } from "../../state/location";
import { patchForView, type QueryPatch } from "../../state/query";
import { useScoped } from "../../state/scope";
import { Icon } from "../../ui/icons";
import { Panel } from "../../ui/Panel";
import { Empty, ErrorNote, Loaded, Skeleton } from "../../ui/states";
import { AdviceItem } from "./AdviceItem";
import { ADVICE_PARAMS } from "./advice";

/**
 * Where a drill-down of DLProf's list leads. The database gives a name, and only names of this list
 * run anything: the contents of a profile are data, never code.
 */
const DRILL_DOWNS: Readonly<Record<string, { label: string; view: string; patch: QueryPatch }>> = {
  "bad-data-type-ops": {
    label: t("Show the ops whose data type does not support Tensor Cores"),
    view: "ops",
    patch: { "ops.f.is_bad_data_type": "1" },
  },
  "bad-iteration-range": {
    label: t("Show the iterations"),
    view: "iterations",
    patch: {},
  },
};

/** How many pieces of advice are shown at once. */
const BEST = 3;

/** What limits the step, in one sentence; the advice comes with it, so that it does not move. */
function WithVerdict({ children }: { children: ComponentChildren }): JSX.Element {
  const verdict = useScoped<Verdict>("verdict/");
  if (verdict.error !== null) {
    return (
      <>
        <ErrorNote error={verdict.error} onRetry={verdict.reload} />
        {children}
      </>
    );
  }
  return (
    <Loaded resource={verdict}>
      {(data) => (
        <>
          <p class={`verdict ${data.limit === "unknown" ? "verdict-unknown" : ""}`}>
            {data.sentence}
          </p>
          {data.pace !== null && (
            <p class="kpi-note" role="note">
              {data.pace}
            </p>
          )}
          {children}
        </>
      )}
    </Loaded>
  );
}

export function RecommendationsPanel(): JSX.Element {
  const advice = useScoped<ListPage<AdviceRow>>("advice/", ADVICE_PARAMS);
  return (
    <Panel
      title={t("Recommendations")}
      info={EXPLANATIONS.recommendations}
      span={7}
      class="panel-advice"
    >
      <WithVerdict>
        <Loaded resource={advice}>
          {(data) =>
            data.unknown?.problem === undefined ? (
              <>
                <OwnAdvice rows={data.results} hasTimes={data.unknown?.gain_ns === undefined} />
                <DlprofList isFolded />
              </>
            ) : (
              <DlprofList isFolded={false} />
            )
          }
        </Loaded>
      </WithVerdict>
    </Panel>
  );
}

function OwnAdvice(props: { rows: readonly AdviceRow[]; hasTimes: boolean }): JSX.Element {
  const { rows, hasTimes } = props;
  const found = rows.filter((row) => row.status === "found");
  const open = rows.filter((row) => row.status !== "found");
  return (
    <>
      {found.length === 0 && open.length === 0 && <NothingFound />}
      {found.length > 0 && (
        <ol class="advice">
          {found.slice(0, BEST).map((row) => (
            <AdviceItem key={row.place} row={row} hasTimes={hasTimes} />
          ))}
        </ol>
      )}
      {found.length > BEST && (
        <details class="advice-more">
          <summary>{t("Further advice ({count})", { count: found.length - BEST })}</summary>
          <ol class="advice advice-rest">
            {found.slice(BEST).map((row) => (
              <AdviceItem key={row.place} row={row} hasTimes={hasTimes} />
            ))}
          </ol>
        </details>
      )}
      {open.length > 0 && (
        <details class="advice-more" open={found.length === 0}>
          <summary>{t("Could not be judged ({count})", { count: open.length })}</summary>
          <ul class="advice-open">
            {open.map((row) => (
              <li key={row.place}>
                {row.problem}
                {row.needs !== null && (
                  <p class="advice-text">{t("Needed: {data}", { data: row.needs })}</p>
                )}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function NothingFound(): JSX.Element {
  return (
    <Empty title={t("No problem found")}>
      {t("No detector found a problem in this aggregation.")}
    </Empty>
  );
}

/** Folded away where our own advice is there; a database of NVIDIA's has this list only. */
function DlprofList({ isFolded }: { isFolded: boolean }): JSX.Element {
  const found = useScoped<{ results: readonly Recommendation[] }>("recommendations/");
  return (
    <Loaded resource={found} skeleton={<Skeleton lines={1} height={22} />}>
      {(data) =>
        data.results.length === 0 ? (
          isFolded ? null : (
            <NothingFound />
          )
        ) : (
          <details class="advice-more" open={!isFolded}>
            <summary>{t("DLProf's list ({count})", { count: data.results.length })}</summary>
            <ol class="advice">
              {data.results.map((item) => (
                <Issue key={item.id} item={item} />
              ))}
            </ol>
          </details>
        )
      }
    </Loaded>
  );
}

function Issue({ item }: { item: Recommendation }): JSX.Element {
  const drill = item.drill_down === null ? undefined : DRILL_DOWNS[item.drill_down];
  return (
    <li>
      <p class="advice-problem">{item.problem}</p>
      <p class="advice-text">
        <Linked text={item.recommendation} />
      </p>
      {drill !== undefined && (
        <button
          type="button"
          class="link-button"
          onClick={() => navigate({ ...patchForView(currentQuery(), drill.view), ...drill.patch })}
        >
          <Icon name="doubleRight" size={14} /> {drill.label}
        </button>
      )}
    </li>
  );
}

/** Text in which addresses are links that open in a new tab. */
export function Linked({ text }: { text: string }): JSX.Element {
  return (
    <>
      {splitLinks(text).map((part) =>
        part.href === null ? (
          part.text
        ) : (
          <a key={part.href} href={part.href} target="_blank" rel="noreferrer">
            {part.text}
          </a>
        ),
      )}
    </>
  );
}
