/** The problems that were found, each with what to do and, where there is one, the rows behind it. */

import type { JSX } from "preact";
import type { Recommendation } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { splitLinks } from "../../lib/text";
import { currentQuery, navigate } from "../../state/location";
import { patchForView, type QueryPatch } from "../../state/query";
import { useScoped } from "../../state/scope";
import { Icon } from "../../ui/icons";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded } from "../../ui/states";

/**
 * Where a drill-down leads. The database gives a name, and only names of this list do anything:
 * what a profile says is data, never code.
 */
const DRILL_DOWNS: Readonly<Record<string, { label: string; view: string; patch: QueryPatch }>> = {
  "bad-data-type-ops": {
    label: t("Show the ops whose data type keeps them from Tensor Cores"),
    view: "ops",
    patch: { "ops.f.is_bad_data_type": "1" },
  },
  "bad-iteration-range": {
    label: t("Show the iterations"),
    view: "iterations",
    patch: {},
  },
};

export function RecommendationsPanel(): JSX.Element {
  const found = useScoped<{ results: readonly Recommendation[] }>("recommendations/");
  return (
    <Panel title={t("Recommendations")} info={EXPLANATIONS.recommendations} span={4}>
      <Loaded resource={found}>
        {(data) =>
          data.results.length === 0 ? (
            <Empty title={t("No problem found")}>
              {t("None of the detectors fired on this aggregation.")}
            </Empty>
          ) : (
            <ol class="advice">
              {data.results.map((item) => (
                <Advice key={item.id} item={item} />
              ))}
            </ol>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Advice({ item }: { item: Recommendation }): JSX.Element {
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
