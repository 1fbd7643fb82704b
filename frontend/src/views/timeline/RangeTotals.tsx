/** Totals of a range of time by kind of work and by op, and its longest events. */

import type { JSX } from "preact";
import type { Timeline, TimelineRange } from "../../api/types";
import { t } from "../../i18n";
import { type ShortNames, shortNames } from "../../lib/names";
import { absolute, lengthOf, moments, type Span } from "../../lib/timeline";
import { durationText, exactNs, formatInt, formatPct } from "../../lib/units";
import { useScope, useScoped } from "../../state/scope";
import { AggregateButton } from "../../ui/AggregateButton";
import { opPage, PageAnchor } from "../../ui/PageLink";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded } from "../../ui/states";
import { SmallTable, time } from "../details/parts";

const CATEGORIES = [
  ...[t("Tensor Core kernels"), t("Other kernels"), t("Communication"), t("Copies"), t("Sets")],
  t("CUDA graphs"),
];
const COLORS = ["tc", "non_tc", "communication", "memory", "memory", "graph"];
const MOST_ROWS = 25;

export function RangeTotals(props: {
  timeline: Timeline;
  span: Span;
  origin: bigint;
  isChosen: boolean;
}): JSX.Element {
  const { timeline, span, isChosen, origin } = props;
  const found = useScoped<TimelineRange>("timeline/range/", {
    start_ns: absolute(Math.floor(span.low), origin),
    stop_ns: absolute(Math.ceil(span.high), origin),
  });
  const titles = new Map(timeline.lanes.map((lane) => [lane.key, lane]));
  return (
    <>
      <Panel
        title={isChosen ? t("GPU time in the range") : t("GPU time shown")}
        unit={t("in {time}", { time: durationText(lengthOf(span)) })}
        span={5}
        actions={
          isChosen && found.data !== null && found.data.iterations !== null ? (
            <Aggregate {...found.data.iterations} />
          ) : undefined
        }
      >
        <Loaded resource={found}>
          {(data) => {
            const ops = data.ops.slice(0, MOST_ROWS);
            const names = namesOf(ops);
            return data.categories.length === 0 ? (
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
                  {ops.map((row) => (
                    <tr key={row.op_id}>
                      <OpCell id={row.op_id} name={row.op_name} names={names} />
                      <td class="align-right">{formatInt(row.num_events)}</td>
                      <td class="align-right">{time(row.time_ns)}</td>
                    </tr>
                  ))}
                </SmallTable>
              </>
            );
          }}
        </Loaded>
      </Panel>
      <Panel title={t("Longest events")} span={7}>
        <Loaded resource={found}>
          {(data) => {
            const start = (row: { readonly start_ns: number }) =>
              row.start_ns - (timeline.start_ns ?? 0);
            const shown = data.events.slice(0, MOST_ROWS);
            const starts = moments(shown.map(start));
            const names = namesOf(shown);
            return (
              <SmallTable
                label={t("Longest events")}
                head={[
                  [t("Event")],
                  [t("Lane")],
                  [t("Op")],
                  [
                    starts.origin === null
                      ? t("Start")
                      : t("Start, from {origin}", { origin: starts.origin }),
                    "align-right",
                  ],
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
                {shown.map((row) => (
                  <tr key={`${row.lane} ${row.start_ns}`}>
                    <td title={row.name}>{row.name}</td>
                    <td title={laneName(titles.get(row.lane))}>{laneName(titles.get(row.lane))}</td>
                    <OpCell id={row.op_id} name={row.op_name} names={names} />
                    <td class="align-right" title={exactNs(start(row))}>
                      {starts.text(start(row))}
                    </td>
                    <td class="align-right">{time(row.duration_ns)}</td>
                  </tr>
                ))}
              </SmallTable>
            );
          }}
        </Loaded>
      </Panel>
    </>
  );
}

/** Letters of a path beside the numbers of its row. */
const NAME_LETTERS = 18;

type OfOp = { readonly op_id: string | null; readonly op_name: string };

function namesOf(rows: readonly OfOp[]): ShortNames {
  const paths = rows.map(({ op_id, op_name }) => op_name || op_id);
  return shortNames(
    paths.filter((path) => path !== null),
    NAME_LETTERS,
  );
}

/** An op by its path, from the end, with a link to its page. */
function OpCell(props: { id: string | null; name: string; names: ShortNames }): JSX.Element {
  const { id, name, names } = props;
  if (id === null) return <td />;
  return (
    <td title={name || id}>
      <PageAnchor class="link" to={opPage(id)}>
        {names.text(name || id)}
      </PageAnchor>
    </td>
  );
}

function laneName(lane: Timeline["lanes"][number] | undefined): string {
  return lane === undefined
    ? ""
    : [lane.group, lane.title].filter((text) => text !== "").join(", ");
}

/** Aggregates the iterations of the range. */
function Aggregate({ first, last }: { first: number; last: number }): JSX.Element {
  const { aggregation } = useScope();
  const isShown = aggregation.iter_start === first && aggregation.iter_stop === last;
  return (
    <AggregateButton
      request={{ iter_start: first, iter_stop: last }}
      disabledReason={isShown ? t("This aggregation has these iterations.") : undefined}
    >
      {t("Aggregate iterations {first} to {last}", { first, last })}
    </AggregateButton>
  );
}
