/** The events that a search or a row of a table selects: how many, and a way through them. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Hit, TimelineHits } from "../../api/types";
import { useResource } from "../../api/useResource";
import { t } from "../../i18n";
import { absolute, SELECTORS, type Selection } from "../../lib/timeline";
import { durationText, formatInt } from "../../lib/units";
import { scopedUrl, useScope } from "../../state/scope";
import { kernelPage, opPage, PageAnchor } from "../../ui/PageLink";
import { Loaded } from "../../ui/states";

/** Which event is shown when a selection is new; null: none. */
export type StartAt = "first" | "longest" | "median" | null;

interface SelectedEventsProps {
  readonly selection: Selection;
  readonly startAt: StartAt;
  /** Stepping begins here. */
  readonly low: number;
  readonly origin: bigint;
  readonly onHit: (hit: Hit) => void;
  readonly onClear: () => void;
}

const WORDS: Readonly<Record<(typeof SELECTORS)[number], string>> = {
  op: t("Op"),
  op_type: t("Op type"),
  group: t("Group"),
  kernel: t("Kernel"),
  search: t("Name contains"),
  iteration: t("Iteration"),
};

export function SelectedEvents(props: SelectedEventsProps): JSX.Element {
  const { selection, startAt, onHit, onClear } = props;
  const scope = useScope();
  const all = useResource<TimelineHits>(scopedUrl(scope, "timeline/hits/", selection));
  const [wanted, setWanted] = useState<Readonly<Record<string, string>> | null>(null);
  const asked = useResource<TimelineHits>(
    wanted === null ? null : scopedUrl(scope, "timeline/hits/", { ...selection, ...wanted }),
  );
  const current = asked.isStale ? null : (asked.data?.event ?? null);
  const start = startAt === null ? null : (all.data?.[startAt] ?? null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each answer
  useEffect(() => {
    if (start !== null) onHit(start);
  }, [start]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each answer
  useEffect(() => {
    if (wanted !== null && current !== null) onHit(current);
  }, [current]);
  const number = current?.number ?? start?.number ?? null;
  const go = (count: number, step: number) => {
    if (number === null) setWanted({ after_ns: absolute(props.low, props.origin) });
    else setWanted({ number: String((number + step + count) % count) });
  };
  return (
    <div class="timeline-selected">
      <span>
        {SELECTORS.filter((name) => selection[name] !== undefined).map((name) => (
          <span key={name} class="timeline-condition">
            {WORDS[name]}: <strong title={selection[name]}>{selection[name]}</strong>
          </span>
        ))}
      </span>
      <Loaded resource={all}>
        {(hits) => (
          <>
            <span role="status">
              {t("{count} events, {time} in all", {
                count: formatInt(hits.count),
                time: durationText(hits.time_ns),
              })}
              {number !== null && hits.is_listed && hits.count > 0
                ? ` · ${t("{place} of {count}", {
                    place: formatInt(number + 1),
                    count: formatInt(hits.count),
                  })}`
                : ""}
            </span>
            {!hits.is_listed && <span>{t("Too many to step through: select fewer of them.")}</span>}
            {hits.is_listed && hits.count > 0 && (
              <span class="timeline-steps">
                <button type="button" class="button" onClick={() => go(hits.count, -1)}>
                  {t("Previous event")}
                </button>
                <button type="button" class="button" onClick={() => go(hits.count, 1)}>
                  {t("Next event")}
                </button>
                {(["first", "longest", "median"] as const).map((name) => (
                  <button
                    key={name}
                    type="button"
                    class="button"
                    onClick={() => setWanted({ number: String(hits[name]?.number ?? 0) })}
                  >
                    {
                      { first: t("First one"), longest: t("Longest one"), median: t("Median one") }[
                        name
                      ]
                    }
                  </button>
                ))}
              </span>
            )}
          </>
        )}
      </Loaded>
      <span class="timeline-steps">
        {selection.op !== undefined && (
          <PageAnchor class="link" to={opPage(selection.op)}>
            {t("Page of this op")}
          </PageAnchor>
        )}
        {selection.kernel !== undefined && (
          <PageAnchor class="link" to={kernelPage(selection.kernel)}>
            {t("Page of this kernel")}
          </PageAnchor>
        )}
        <button type="button" class="button" onClick={onClear}>
          {t("Show all events")}
        </button>
      </span>
    </div>
  );
}
