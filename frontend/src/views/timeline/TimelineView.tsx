/** What happened when: streams of GPUs, and modules, ops and CUDA calls of threads. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Timeline } from "../../api/types";
import { t } from "../../i18n";
import { lengthOf, readSpan, type Span, spanText } from "../../lib/timeline";
import { durationText, formatInt } from "../../lib/units";
import { currentQuery, navigate, useQuery } from "../../state/location";
import { useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded } from "../../ui/states";
import { type Chosen, LaneChart } from "./LaneChart";
import { RangeTotals } from "./RangeTotals";

const WINDOW = "span";
const CHOSEN = "range";
/** The address follows when the window has come to rest. */
const REST_MS = 300;

export function TimelineView(): JSX.Element {
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
            <Lanes timeline={data} all={{ low: data.start_ns, high: data.stop_ns }} />
          )
        }
      </Loaded>
    </div>
  );
}

/** A window that is also in the address. */
function useWindow(all: Span): readonly [Span, (span: Span) => void] {
  const [span, setSpan] = useState(() => readSpan(currentQuery().get(WINDOW), all) ?? all);
  const inAddress = useQuery().get(WINDOW);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only the way back and links change it
  useEffect(() => {
    const wanted = readSpan(inAddress, all) ?? all;
    if (spanText(wanted) !== spanText(span)) setSpan(wanted);
  }, [inAddress]);
  useEffect(() => {
    const timer = window.setTimeout(() => {
      const text = lengthOf(span) >= lengthOf(all) ? null : spanText(span);
      navigate({ [WINDOW]: text }, { replace: true });
    }, REST_MS);
    return () => window.clearTimeout(timer);
  }, [span, all]);
  return [span, setSpan];
}

function Lanes({ timeline, all }: { timeline: Timeline; all: Span }): JSX.Element {
  const whole = useMemo(() => ({ low: all.low, high: all.high }), [all.low, all.high]);
  const [span, setSpan] = useWindow(whole);
  const query = useQuery();
  const search = query.get("timeline.q") ?? "";
  const range = readSpan(query.get(CHOSEN), whole);
  const [event, setEvent] = useState<Chosen | null>(null);
  const choose = (chosen: Span | null) =>
    navigate({ [CHOSEN]: chosen === null ? null : spanText(chosen) }, { replace: true });
  return (
    <div class="grid">
      <Panel
        title={t("Timeline")}
        span={12}
        class="timeline-panel"
        unit={durationText(lengthOf(span))}
        actions={
          <>
            <label class="table-search">
              <span class="visually-hidden">{t("Highlight events by name")}</span>
              <input
                type="search"
                value={search}
                placeholder={t("Highlight events by name")}
                onInput={(input) =>
                  navigate({ "timeline.q": input.currentTarget.value || null }, { replace: true })
                }
              />
            </label>
            <button type="button" class="button" onClick={() => setSpan(whole)}>
              {t("Show all")}
            </button>
            {range !== null && (
              <button type="button" class="button" onClick={() => setSpan(range)}>
                {t("Zoom to the range")}
              </button>
            )}
          </>
        }
      >
        <LaneChart
          timeline={timeline}
          all={whole}
          span={span}
          range={range}
          search={search.toLowerCase()}
          onSpan={setSpan}
          onRange={choose}
          onEvent={setEvent}
        />
        <p class="timeline-note">
          {t(
            "Drag: choose a range. Wheel with Ctrl, or W and S: zoom. Wheel with Shift, or A and D: move. F: show all. Click: an event.",
          )}{" "}
          {formatInt(timeline.lanes.reduce((sum, lane) => sum + lane.num_events, 0))} {t("events")}
        </p>
      </Panel>
      <RangeTotals
        timeline={timeline}
        span={range ?? readSpan(query.get(WINDOW), whole) ?? whole}
        isChosen={range !== null}
        event={event}
      />
    </div>
  );
}
