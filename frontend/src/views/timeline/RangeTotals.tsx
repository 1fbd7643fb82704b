/** Totals of a range of time by kind of work and by op, and its longest events. */

import type { Timeline, TimelineRange } from "../../api/types";
import { t } from "../../i18n";
import { shortNames } from "../../lib/names";
import { absolute, lengthOf, moments, type Span } from "../../lib/timeline";
import { durationText, exactNs, formatInt, formatPct } from "../../lib/units";
import { useScope, useScoped } from "../../state/scope";
import { AggregateButton } from "../../ui/AggregateButton";
import { RIGHT, SmallTable, type TableColumn } from "../../ui/ColumnsTable";
import { opPage, PageAnchor } from "../../ui/PageLink";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded } from "../../ui/states";
import { time } from "../details/parts";

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
}) {
  const { timeline, span, isChosen, origin } = props;
  const found = useScoped<TimelineRange>("timeline/range/", {
    start_ns: absolute(Math.floor(span.low), origin),
    stop_ns: absolute(Math.ceil(span.high), origin),
  });
  const titles = new Map(timeline.lanes.map((lane) => [lane.key, laneName(lane)]));
  const laneOf = ({ lane }: { readonly lane: string }) => titles.get(lane) ?? "";
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
            return data.categories.length === 0 ? (
              <Empty title={t("No work of a GPU in this time")} />
            ) : (
              <>
                <SmallTable
                  label={t("GPU time by kind of work")}
                  rows={data.categories}
                  rowKey={(row) => row.category}
                  columns={[
                    [t("Kind"), ({ category }) => <Category category={category} />],
                    [t("Events"), (row) => formatInt(row.num_events), RIGHT],
                    [t("Time"), (row) => time(row.time_ns), RIGHT],
                    [
                      t("Share"),
                      (row) => `${formatPct((100 * row.time_ns) / lengthOf(span))} %`,
                      RIGHT,
                    ],
                  ]}
                />
                <SmallTable
                  label={t("GPU time by op")}
                  rows={ops}
                  rowKey={(row) => row.op_id ?? ""}
                  columns={[
                    opColumn(ops),
                    [t("Events"), (row) => formatInt(row.num_events), RIGHT],
                    [t("Time"), (row) => time(row.time_ns), RIGHT],
                  ]}
                />
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
            return (
              <SmallTable
                label={t("Longest events")}
                rows={shown}
                rowKey={(row) => `${row.lane} ${row.start_ns}`}
                columns={[
                  [t("Event"), (row) => row.name, { tip: (row) => row.name }],
                  [t("Lane"), laneOf, { tip: laneOf }],
                  opColumn(shown),
                  [
                    starts.origin === null
                      ? t("Start")
                      : t("Start, from {origin}", { origin: starts.origin }),
                    (row) => starts.text(start(row)),
                    { ...RIGHT, tip: (row) => exactNs(start(row)) },
                  ],
                  [t("Time"), (row) => time(row.duration_ns), RIGHT],
                ]}
                more={
                  data.num_events > MOST_ROWS
                    ? t("The {shown} longest of {count} events.", {
                        shown: MOST_ROWS,
                        count: formatInt(data.num_events),
                      })
                    : null
                }
              />
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

/** Ops by their paths, from the end, with links to their pages. */
function opColumn<Row extends OfOp>(rows: readonly Row[]): TableColumn<Row> {
  const pathOf = ({ op_id, op_name }: Row) => op_name || op_id;
  const paths = rows.map(pathOf).filter((path) => path !== null);
  const names = shortNames(paths, NAME_LETTERS);
  const cell = (row: Row) =>
    row.op_id !== null && (
      <PageAnchor class="link" to={opPage(row.op_id)}>
        {names.text(pathOf(row) ?? "")}
      </PageAnchor>
    );
  return [t("Op"), cell, { tip: (row) => (row.op_id === null ? undefined : (pathOf(row) ?? "")) }];
}

function Category({ category }: { category: number }) {
  const background = `var(--part-${COLORS[category] ?? "other"})`;
  return (
    <>
      <span class="swatch" style={{ background }} />
      {CATEGORIES[category] ?? ""}
    </>
  );
}

function laneName({ group, title }: Timeline["lanes"][number]): string {
  return [group, title].filter((text) => text !== "").join(", ");
}

/** Aggregates the iterations of the range. */
function Aggregate({ first, last }: { first: number; last: number }) {
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
