/** Totals of a range of time by kind of work and by op, and its longest events. */

import type { JSX } from "preact";
import type { Timeline, TimelineRange } from "../../api/types";
import { t } from "../../i18n";
import { lengthOf, type Span } from "../../lib/timeline";
import { durationText, formatInt, formatPct } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { opPage, PageAnchor } from "../../ui/PageLink";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded } from "../../ui/states";
import { SmallTable, time } from "../one/parts";
import type { Chosen } from "./LaneChart";

const CATEGORIES = [
  ...[t("Tensor Core kernels"), t("Other kernels"), t("Communication"), t("Copies"), t("Sets")],
  t("CUDA graphs"),
];
const COLORS = ["tc", "non_tc", "communication", "memory", "memory", "graph"];
const MOST_LANES = 500;
const MOST_ROWS = 25;

export function RangeTotals(props: {
  timeline: Timeline;
  span: Span;
  isChosen: boolean;
  event: Chosen | null;
}): JSX.Element {
  const { timeline, span, isChosen, event } = props;
  const found = useScoped<TimelineRange>("timeline/range/", {
    lanes: timeline.lanes
      .slice(0, MOST_LANES)
      .map((lane) => lane.key)
      .join(","),
    start_ns: Math.floor(span.low),
    stop_ns: Math.ceil(span.high),
  });
  const titles = new Map(timeline.lanes.map((lane) => [lane.key, lane]));
  return (
    <>
      {event !== null && <OneEvent event={event} origin={timeline.start_ns ?? 0} />}
      <Panel
        title={isChosen ? t("GPU time in the range") : t("GPU time shown")}
        unit={durationText(lengthOf(span))}
        span={5}
      >
        <Loaded resource={found}>
          {(data) =>
            data.categories.length === 0 ? (
              <Empty title={t("No work of a GPU in this time")} />
            ) : (
              <>
                <SmallTable
                  label={t("GPU time by kind of work")}
                  head={[
                    [t("Kind")],
                    [t("Events"), "align-right"],
                    [t("Time"), "align-right"],
                    [t("Share"), "align-right"],
                  ]}
                >
                  {data.categories.map((row) => (
                    <tr key={row.category}>
                      <td>
                        <i
                          class="timeline-swatch"
                          style={{ background: `var(--part-${COLORS[row.category] ?? "other"})` }}
                        />
                        {CATEGORIES[row.category] ?? ""}
                      </td>
                      <td class="align-right">{formatInt(row.num_events)}</td>
                      <td class="align-right">{time(row.time_ns)}</td>
                      <td class="align-right">
                        {formatPct((100 * row.time_ns) / lengthOf(span))} %
                      </td>
                    </tr>
                  ))}
                </SmallTable>
                <SmallTable
                  label={t("GPU time by op")}
                  head={[[t("Op")], [t("Events"), "align-right"], [t("Time"), "align-right"]]}
                >
                  {data.ops.slice(0, MOST_ROWS).map((row) => (
                    <tr key={row.op_id}>
                      <td title={row.op_id}>
                        <PageAnchor class="link" to={opPage(row.op_id)}>
                          {row.op_id}
                        </PageAnchor>
                      </td>
                      <td class="align-right">{formatInt(row.num_events)}</td>
                      <td class="align-right">{time(row.time_ns)}</td>
                    </tr>
                  ))}
                </SmallTable>
              </>
            )
          }
        </Loaded>
      </Panel>
      <Panel title={t("Longest events")} span={7}>
        <Loaded resource={found}>
          {(data) => (
            <SmallTable
              label={t("Longest events")}
              head={[
                [t("Event")],
                [t("Lane")],
                [t("Op")],
                [t("Start"), "align-right"],
                [t("Time"), "align-right"],
              ]}
              more={
                data.num_events > MOST_ROWS
                  ? t("The {shown} longest of {count} events.", {
                      shown: MOST_ROWS,
                      count: formatInt(data.num_events),
                    })
                  : null
              }
            >
              {data.events.slice(0, MOST_ROWS).map((row) => (
                <tr key={`${row.lane} ${row.start_ns}`}>
                  <td title={row.name}>{row.name}</td>
                  <td title={laneName(titles.get(row.lane))}>{laneName(titles.get(row.lane))}</td>
                  <td title={row.op_id ?? undefined}>
                    {row.op_id !== null && (
                      <PageAnchor class="link" to={opPage(row.op_id)}>
                        {row.op_id}
                      </PageAnchor>
                    )}
                  </td>
                  <td class="align-right">{time(row.start_ns - (timeline.start_ns ?? 0))}</td>
                  <td class="align-right">{time(row.duration_ns)}</td>
                </tr>
              ))}
            </SmallTable>
          )}
        </Loaded>
      </Panel>
    </>
  );
}

function laneName(lane: Timeline["lanes"][number] | undefined): string {
  return lane === undefined
    ? ""
    : [lane.group, lane.title].filter((text) => text !== "").join(", ");
}

function OneEvent({ event, origin }: { event: Chosen; origin: number }): JSX.Element {
  return (
    <Panel title={event.count > 1 ? t("Events") : t("Event")} span={12}>
      <p class="timeline-event">
        <strong>{event.name}</strong>{" "}
        {event.count > 1
          ? t("{count} events, {time} in all; most of it in this one.", {
              count: formatInt(event.count),
              time: durationText(event.busyNs),
            })
          : t("{time}, from {start} on.", {
              time: durationText(event.durationNs),
              start: durationText(event.startNs - origin),
            })}{" "}
        {event.opId !== null && (
          <PageAnchor class="link" to={opPage(event.opId)}>
            {event.opId}
          </PageAnchor>
        )}
      </p>
    </Panel>
  );
}
