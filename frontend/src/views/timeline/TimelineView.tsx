/** What happened when: streams of GPUs, and modules, ops and CUDA calls of threads. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Hit, Timeline, TimelineEvent } from "../../api/types";
import { useResource } from "../../api/useResource";
import { t } from "../../i18n";
import {
  ALL,
  absolute,
  around,
  type EventRef,
  eventText,
  lengthOf,
  readEvent,
  readSelection,
  readSpan,
  type Selection,
  type Span,
  selectionText,
  spanText,
  within,
} from "../../lib/timeline";
import { durationText, formatInt } from "../../lib/units";
import { currentQuery, navigate, useQuery } from "../../state/location";
import { scopedUrl, useScope, useScoped } from "../../state/scope";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/icons";
import { Panel } from "../../ui/Panel";
import { Segmented } from "../../ui/Segmented";
import { Empty, Loaded } from "../../ui/states";
import { ChosenEvent, ChosenRun } from "./ChosenEvent";
import type { ColorMode } from "./colors";
import { EventsPanel } from "./EventsPanel";
import { LaneChart } from "./LaneChart";
import { foldedAtFirst, layOut } from "./layout";
import { RangeTotals } from "./RangeTotals";
import { FindEvents, SelectedEvents, type StartAt } from "./SelectedEvents";
import type { Found, Spot } from "./scene";

const WINDOW = "span";
const CHOSEN = "range";
const EVENT = "event";
const SHOW = "timeline.show";
const AT = "timeline.at";
const FOLDED = "timeline.folded";
const SCROLLED = "timeline.top";
const COLORS = "timeline.colors";
const TAB = "timeline.tab";
const EMPTY = "timeline.empty";

export default function TimelineView() {
  const timeline = useScoped<Timeline>("timeline/");
  return (
    <div class="view view-timeline">
      <h1 class="visually-hidden">{t("Timeline")}</h1>
      <Loaded resource={timeline}>
        {(data) =>
          data.start_ns === null || data.stop_ns === null ? (
            <Empty title={t("No timeline")}>
              {data.unknown.lanes ?? t("The profile contains no events.")}
            </Empty>
          ) : (
            <Lanes timeline={data} length={data.stop_ns - data.start_ns} />
          )
        }
      </Loaded>
    </div>
  );
}

/** Three steps of median time; all of the time where there are no steps. */
function openingOf({ start_ns, median_start_ns: low, median_stop_ns: high }: Timeline, all: Span) {
  const first = start_ns ?? 0;
  return low === null || high === null
    ? all
    : within({ low: low - first, high: high - first }, all);
}

/** A window that is also in the address, unless it is the one that the timeline opens with. */
function useWindow(all: Span, opening: Span, origin: bigint) {
  const read = (text: string | undefined) => readSpan(text, all, origin) ?? opening;
  const [span, setSpan] = useState(() => read(currentQuery().get(WINDOW)));
  const inAddress = useQuery().get(WINDOW);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only the way back and links change it
  useEffect(() => {
    const wanted = read(inAddress);
    if (spanText(wanted, origin) !== spanText(span, origin)) setSpan(wanted);
  }, [inAddress]);
  const show = (next: Span) => {
    setSpan(next);
    const isAll = lengthOf(next) >= lengthOf(all);
    const text = isAll ? ALL : spanText(next, origin);
    const isOpening = spanText(opening, origin) === spanText(next, origin);
    navigate({ [WINDOW]: isOpening ? null : text }, { replace: true });
  };
  return [span, show] as const;
}

/** Groups that are folded: the places of those that are not as at first are in the address. */
function useFolded(timeline: Timeline): readonly [ReadonlySet<string>, (group: string) => void] {
  const text = useQuery().get(FOLDED) ?? "";
  const groups = useMemo(
    () => [...new Set(timeline.lanes.map((lane) => lane.group))].filter((group) => group !== ""),
    [timeline],
  );
  const atFirst = useMemo(() => foldedAtFirst(timeline.lanes), [timeline]);
  const changed = useMemo(
    () => new Set(text.split(",").flatMap((place) => groups[Number(place || -1)] ?? [])),
    [text, groups],
  );
  const folded = useMemo(
    () => new Set(groups.filter((group) => atFirst.has(group) !== changed.has(group))),
    [groups, atFirst, changed],
  );
  const fold = (group: string) => {
    const next = new Set(changed);
    if (!next.delete(group)) next.add(group);
    const places = groups.flatMap((one, place) => (next.has(one) ? [place] : []));
    navigate({ [FOLDED]: places.join(",") }, { replace: true });
  };
  return [folded, fold];
}

/** The chosen event: by its place in the address, or several short ones that were clicked. */
function useChosen(timeline: Timeline, origin: bigint) {
  const scope = useScope();
  const text = useQuery().get(EVENT);
  const ref = useMemo(() => readEvent(text, origin), [text, origin]);
  const [found, setFound] = useState<Found | null>(null);
  const resource = useResource<TimelineEvent>(
    ref === null || ref.row < 0
      ? null
      : scopedUrl(scope, "timeline/event/", {
          lane: ref.lane,
          start_ns: absolute(ref.start, origin),
          row_id: ref.row,
        }),
  );
  const event = ref === null || resource.isStale ? null : resource.data;
  const first = timeline.start_ns ?? 0;
  const spot: Spot | null = useMemo(() => {
    if (ref === null) return found;
    const duration = event?.duration_ns ?? (found?.start === ref.start ? found.duration : 0);
    return { lane: ref.lane, start: ref.start, duration };
  }, [ref, found, event]);
  const related: readonly Spot[] = useMemo(
    () =>
      (event?.related ?? []).map((one) => ({
        lane: one.lane,
        start: one.start_ns - first,
        duration: one.duration_ns,
      })),
    [event, first],
  );
  const choose = (next: EventRef | null) => {
    setFound(null);
    navigate({ [EVENT]: next === null ? null : eventText(next, origin) }, { replace: true });
  };
  const click = (next: Found | null) => {
    choose(next !== null && next.count === 1 ? next : null);
    setFound(next);
  };
  const isFound = ref !== null && found?.lane === ref.lane && found.start === ref.start;
  const preview = isFound ? found : null;
  return { resource, ref, preview, run: ref === null ? found : null, spot, related, choose, click };
}

function Lanes({ timeline, length }: { timeline: Timeline; length: number }) {
  const all = useMemo(() => ({ low: 0, high: Math.max(length, 1) }), [length]);
  const origin = useMemo(() => BigInt(timeline.start_ns ?? 0), [timeline]);
  const opening = useMemo(() => openingOf(timeline, all), [timeline, all]);
  const [span, setSpan] = useWindow(all, opening, origin);
  const { aggregation } = useScope();
  const query = useQuery();
  const show = query.get(SHOW);
  const selection = useMemo(() => readSelection(show), [show]);
  const rangeText = query.get(CHOSEN);
  const range = useMemo(() => readSpan(rangeText, all, origin), [rangeText, all, origin]);
  const mode: ColorMode = query.get(COLORS) === "op_type" ? "op_type" : "tensor_cores";
  const [folded, fold] = useFolded(timeline);
  const chosen = useChosen(timeline, origin);
  const isAllShown = query.get(EMPTY) === "1";
  const lanes = useMemo(
    () =>
      timeline.lanes.filter(
        (lane) => isAllShown || lane.is_in_steps || lane.key === chosen.spot?.lane,
      ),
    [timeline, isAllShown, chosen.spot],
  );
  const layout = useMemo(() => layOut(lanes, folded), [lanes, folded]);
  const numEmpty = timeline.lanes.filter((lane) => !lane.is_in_steps).length;
  const choose = (next: Span | null) =>
    navigate({ [CHOSEN]: next === null ? null : spanText(next, origin) }, { replace: true });
  const select = (next: Selection | null) =>
    navigate({ [SHOW]: next === null ? null : selectionText(next), [AT]: null }, { replace: true });
  const jump = (spot: Spot & { readonly row: number }) => {
    const isFar = spot.start < span.low || spot.start > span.high;
    if (isFar || spot.duration * 1_000 < lengthOf(span)) {
      setSpan(around(spot.start, Math.max(spot.duration, lengthOf(span) / 1_000), all));
    }
    chosen.choose(spot);
  };
  const onHit = (hit: Hit) => {
    const start = hit.start_ns - (timeline.start_ns ?? 0);
    setSpan(around(start, hit.duration_ns, all));
    chosen.choose({ lane: hit.lane, start, row: hit.row_id });
  };
  return (
    <div class="grid">
      <Panel
        title={t("Timeline")}
        span={12}
        class="timeline-panel"
        unit={t("{time} shown", { time: durationText(lengthOf(span)) })}
      >
        <div class="timeline-tools">
          <FindEvents
            selection={selection}
            startAt={startOf(query.get(AT))}
            low={span.low}
            origin={origin}
            onHit={onHit}
            onSelect={select}
          />
          <Tools range={range} mode={mode} onAll={() => setSpan(all)} onZoom={setSpan} />
        </div>
        {selection !== null && <SelectedEvents selection={selection} />}
        <LaneChart
          timeline={timeline}
          layout={layout}
          stepNs={aggregation.iter_median_ns}
          all={all}
          span={span}
          range={range}
          mode={mode}
          selection={selection}
          chosen={chosen.spot}
          related={chosen.related}
          folded={folded}
          scrolled={pixelsOf(query.get(SCROLLED))}
          onFold={fold}
          onScrolled={(top) =>
            navigate({ [SCROLLED]: top > 0 ? String(top) : null }, { replace: true })
          }
          onSpan={setSpan}
          onRange={choose}
          onEvent={chosen.click}
        />
        <p class="timeline-note">
          <span class="timeline-keys">
            {t("W/S zoom · A/D pan · F fit · drag to select · ? all shortcuts")}
          </span>
          <span>
            {formatInt(numEvents(timeline))} {t("events")}
            {numEmpty > 0 && " · "}
            {numEmpty > 0 && (
              <Button
                class="link-button"
                onClick={() => navigate({ [EMPTY]: isAllShown ? null : "1" }, { replace: true })}
              >
                {isAllShown
                  ? t("Hide {count} lanes without events in the steps", { count: numEmpty })
                  : t("Show {count} lanes without events in the steps", { count: numEmpty })}
              </Button>
            )}
          </span>
        </p>
      </Panel>
      <div class="span-12 timeline-dock">
        {chosen.ref !== null && (
          <ChosenEvent
            timeline={timeline}
            resource={chosen.resource}
            preview={chosen.preview}
            onJump={jump}
            onHighlight={(op) => select({ op })}
            onClose={() => chosen.choose(null)}
          />
        )}
        {chosen.run !== null && (
          <ChosenRun
            run={chosen.run}
            onZoom={() => {
              if (chosen.run !== null) setSpan(around(chosen.run.start, chosen.run.duration, all));
            }}
            onClose={() => chosen.click(null)}
          />
        )}
      </div>
      <Below timeline={timeline} span={range ?? span} origin={origin} isChosen={range !== null} />
    </div>
  );
}

/** Kinds of lanes whose events are no others, or parts of others. */
const RECORDED = new Set(["work", "ops", "calls", "waits"]);

function numEvents({ lanes }: Timeline): number {
  return lanes.reduce(
    (sum, lane) => sum + (RECORDED.has(lane.kind) ? (lane.num_events ?? 0) : 0),
    0,
  );
}

function pixelsOf(text: string | undefined): number {
  return /^\d{1,7}$/.test(text ?? "") ? Number(text) : 0;
}

function startOf(text: string | undefined): StartAt {
  return text === "first" || text === "longest" || text === "median" ? text : null;
}

/** Totals of the time, or its events one by one. */
function Below(props: { timeline: Timeline; span: Span; origin: bigint; isChosen: boolean }) {
  const tab = useQuery().get(TAB) === "events" ? "events" : "totals";
  const choices = [
    ["totals", t("Totals")],
    ["events", t("Events")],
  ] as const;
  return (
    <>
      <div class="span-12 timeline-tabs">
        <Segmented
          label={t("Shown of this time")}
          choices={choices}
          value={tab}
          onChange={(next) =>
            navigate({ [TAB]: next === "totals" ? null : next }, { replace: true })
          }
        />
      </div>
      {tab === "totals" ? <RangeTotals {...props} /> : <EventsPanel {...props} />}
    </>
  );
}

function Tools(props: {
  range: Span | null;
  mode: ColorMode;
  onAll: () => void;
  onZoom: (span: Span) => void;
}) {
  const { range, mode, onAll, onZoom } = props;
  const scope = useScope();
  const modes = [
    ["tensor_cores", t("Tensor Cores")],
    ["op_type", t("Op type")],
  ] as const;
  return (
    <div class="timeline-options">
      <Segmented
        label={t("Colors of kernels")}
        choices={modes}
        value={mode}
        onChange={(next) =>
          navigate({ [COLORS]: next === "op_type" ? next : null }, { replace: true })
        }
      />
      <Button onClick={onAll}>{t("Fit all")}</Button>
      {range !== null && <Button onClick={() => onZoom(range)}>{t("Zoom to the range")}</Button>}
      <a
        class="button"
        href={scopedUrl(scope, "timeline/perfetto/")}
        download
        title={t("All events as a trace for ui.perfetto.dev")}
      >
        <Icon name="download" /> {t("Perfetto")}
      </a>
    </div>
  );
}
