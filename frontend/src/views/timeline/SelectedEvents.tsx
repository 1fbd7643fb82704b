/** The events that a search or a row of a table selects: how many, and a way through them. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Hit, TimelineHits } from "../../api/types";
import { useResource } from "../../api/useResource";
import { t } from "../../i18n";
import { absolute, SELECTORS, type Selection, selectionText } from "../../lib/timeline";
import { durationText, formatInt } from "../../lib/units";
import { scopedUrl, useScope } from "../../state/scope";
import { Button, IconButton } from "../../ui/Button";
import { kernelPage, opPage, PageAnchor } from "../../ui/PageLink";
import { ErrorNote } from "../../ui/states";

/** Which event is shown when a selection is new; null: none. */
export type StartAt = "first" | "longest" | "median" | null;

const WORDS: Readonly<Record<(typeof SELECTORS)[number], string>> = {
  op: t("Op"),
  op_type: t("Op type"),
  group: t("Group"),
  kernel: t("Kernel"),
  search: t("Name contains"),
  iteration: t("Iteration"),
};

interface FindEventsProps {
  readonly selection: Selection | null;
  readonly startAt: StartAt;
  /** Stepping begins here. */
  readonly low: number;
  readonly origin: bigint;
  readonly onHit: (hit: Hit) => void;
  readonly onSelect: (selection: Selection | null) => void;
}

const TYPING_MS = 250;

/** The selected events, and the one that was stepped to last. */
function useHits({ selection, startAt, low, origin, onHit }: FindEventsProps) {
  const scope = useScope();
  const hits = (more: Readonly<Record<string, string>>) =>
    selection === null ? null : scopedUrl(scope, "timeline/hits/", { ...selection, ...more });
  const all = useResource<TimelineHits>(hits({}));
  const text = selection === null ? "" : selectionText(selection);
  const [wanted, setWanted] = useState<{ text: string; to: Readonly<Record<string, string>> }>();
  const isWanted = wanted?.text === text;
  const asked = useResource<TimelineHits>(isWanted ? hits(wanted.to) : null);
  const found = selection === null || all.isStale ? null : all.data;
  const current = !isWanted || asked.isStale ? null : (asked.data?.event ?? null);
  const start = startAt === null ? null : (found?.[startAt] ?? null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each answer
  useEffect(() => {
    if (start !== null) onHit(start);
  }, [start]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each answer
  useEffect(() => {
    if (current !== null) onHit(current);
  }, [current]);
  const number = current?.number ?? start?.number ?? null;
  const to = (place: Readonly<Record<string, string>>) => setWanted({ text, to: place });
  const go = (step: number) => {
    const count = found?.count ?? 0;
    if (count === 0) return;
    if (number === null) to({ after_ns: absolute(low, origin) });
    else to({ number: String((number + step + count) % count) });
  };
  return { all, found, number, go, to };
}

/** A search, and steps through what it or a link has selected: "3 / 60". */
export function FindEvents(props: FindEventsProps) {
  const { selection, onSelect } = props;
  const timer = useRef(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const { all, found, number, go, to } = useHits(props);
  const search = (next: string, delayMs: number) => {
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(
      () => onSelect(next === "" ? null : { search: next }),
      delayMs,
    );
  };
  const canStep = found?.is_listed === true && found.count > 0;
  return (
    <search class="timeline-find">
      <label class="table-search">
        <span class="visually-hidden">{t("Find events by name or op")}</span>
        <input
          type="search"
          data-search
          value={selection?.search ?? ""}
          placeholder={t("Find events by name or op")}
          onInput={(input) => search(input.currentTarget.value, TYPING_MS)}
          onKeyDown={(event) => {
            if (event.key !== "Enter") return;
            event.preventDefault();
            const typed = event.currentTarget.value;
            if (typed !== (selection?.search ?? "")) search(typed, 0);
            else go(event.shiftKey ? -1 : 1);
          }}
        />
      </label>
      {all.error !== null && <ErrorNote error={all.error} onRetry={all.reload} />}
      {found !== null && (
        <>
          <IconButton icon="close" label={t("Clear")} onClick={() => onSelect(null)} />
          <span class="timeline-count" role="status">
            {number === null
              ? t("{count} events", { count: formatInt(found.count) })
              : t("{place} of {count}", {
                  place: formatInt(number + 1),
                  count: formatInt(found.count),
                })}
            {`, ${t("{time} total", { time: durationText(found.time_ns) })}`}
          </span>
          {!found.is_listed && <span>{t("Too many to step through: select fewer of them.")}</span>}
          {canStep && (
            <span class="timeline-steps">
              <IconButton icon="chevronLeft" label={t("Previous event")} onClick={() => go(-1)} />
              <IconButton icon="chevronRight" label={t("Next event")} onClick={() => go(1)} />
              {CHOICES.map(([name, label]) => (
                <Button key={name} onClick={() => to({ number: String(found[name]?.number ?? 0) })}>
                  {label}
                </Button>
              ))}
            </span>
          )}
        </>
      )}
    </search>
  );
}

const CHOICES = [
  ["first", t("First")],
  ["longest", t("Longest")],
  ["median", t("Median")],
] as const;

/** What a link has selected, in words; a search says it itself. */
export function SelectedEvents({ selection }: { selection: Selection }) {
  const conditions = SELECTORS.filter((name) => name !== "search" && selection[name] !== undefined);
  if (conditions.length === 0) return null;
  return (
    <div class="timeline-selected">
      {conditions.map((name) => (
        <span key={name} class="timeline-condition">
          {WORDS[name]}: <strong title={selection[name]}>{selection[name]}</strong>
        </span>
      ))}
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
    </div>
  );
}
