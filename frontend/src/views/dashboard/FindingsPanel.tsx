/** The findings, the one that saves most first; then what could not be judged, and DLProf's list. */

import type { ComponentChildren } from "preact";
import type { ListPage } from "../../api/lists";
import type { AdviceRow, Recommendation } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { splitLinks } from "../../lib/text";
import type { QueryPatch } from "../../state/query";
import { useScoped } from "../../state/scope";
import { Icon } from "../../ui/icons";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded } from "../../ui/states";
import { ADVICE_PARAMS } from "./advice";
import { Finding } from "./Finding";
import { ViewLink } from "./ViewLink";

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

/** How many findings are shown at once. */
const BEST = 3;

export function FindingsPanel() {
  const advice = useScoped<ListPage<AdviceRow>>("advice/", ADVICE_PARAMS);
  const classic = useScoped<{ results: readonly Recommendation[] }>("recommendations/");
  return (
    <Panel title={t("Recommendations")} info={EXPLANATIONS.recommendations} span={12}>
      <Loaded resource={advice}>
        {(data) => (
          <Loaded resource={classic}>
            {({ results }) =>
              data.unknown?.problem === undefined ? (
                <Findings
                  rows={data.results}
                  hasTimes={data.unknown?.gain_ns === undefined}
                  classic={results}
                />
              ) : (
                <ClassicList items={results} />
              )
            }
          </Loaded>
        )}
      </Loaded>
    </Panel>
  );
}

interface FindingsProps {
  readonly rows: readonly AdviceRow[];
  readonly hasTimes: boolean;
  readonly classic: readonly Recommendation[];
}

function Findings({ rows, hasTimes, classic }: FindingsProps) {
  const found = rows.filter((row) => row.status === "found");
  const open = rows.filter((row) => row.status !== "found");
  const list = (some: readonly AdviceRow[], start: number) => (
    <ol class="findings" start={start}>
      {some.map((row) => (
        <Finding key={row.place} row={row} hasTimes={hasTimes} />
      ))}
    </ol>
  );
  const others = open.length + classic.length;
  return (
    <>
      {found.length === 0 ? <NothingFound /> : list(found.slice(0, BEST), 1)}
      <div class="folds">
        {found.length > BEST && (
          <Folded title={t("More findings ({count})", { count: found.length - BEST })}>
            {list(found.slice(BEST), BEST + 1)}
          </Folded>
        )}
        {others > 0 && (
          <Folded
            title={t("Other checks ({count})", { count: others })}
            isOpen={found.length === 0}
          >
            {open.length > 0 && (
              <>
                <h3>{t("Not enough data ({count})", { count: open.length })}</h3>
                <ul class="checks">
                  {open.map((row) => (
                    <li key={row.place}>
                      {row.problem}
                      {row.needs !== null && (
                        <p class="muted">{t("Needed: {data}", { data: row.needs })}</p>
                      )}
                    </li>
                  ))}
                </ul>
              </>
            )}
            {classic.length > 0 && (
              <>
                <h3>{t("Classic DLProf checks ({count})", { count: classic.length })}</h3>
                <ClassicList items={classic} />
              </>
            )}
          </Folded>
        )}
      </div>
    </>
  );
}

function Folded(props: { title: string; isOpen?: boolean; children: ComponentChildren }) {
  return (
    <details class="folded" open={props.isOpen ?? false}>
      <summary>{props.title}</summary>
      {props.children}
    </details>
  );
}

function NothingFound() {
  return (
    <Empty title={t("No problem found")}>
      {t("No detector found a problem in this aggregation.")}
    </Empty>
  );
}

/** The list that DLProf has; a database of NVIDIA's has no other. */
function ClassicList({ items }: { items: readonly Recommendation[] }) {
  if (items.length === 0) return <NothingFound />;
  return (
    <ul class="checks">
      {items.map((item) => {
        const drill = item.drill_down === null ? undefined : DRILL_DOWNS[item.drill_down];
        return (
          <li key={item.id}>
            <p>{item.problem}</p>
            <p class="muted">
              <Linked text={item.recommendation} />
            </p>
            {drill !== undefined && (
              <ViewLink class="link-button" view={drill.view} patch={drill.patch}>
                <Icon name="doubleRight" size={14} /> {drill.label}
              </ViewLink>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** Text in which addresses are links that open in a new tab. */
export function Linked({ text }: { text: string }) {
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
