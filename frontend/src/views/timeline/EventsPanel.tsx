/** The events that begin in some time as a table: sorted, filtered, exported, by keys alone. */

import type { TimelineEventsRow } from "../../api/types";
import { t } from "../../i18n";
import { absolute, type Span } from "../../lib/timeline";
import { navigate } from "../../state/location";
import { shownColumns } from "../../table/columns";
import { UrlTable } from "../../table/DataTable";
import { TIMELINE_EVENTS } from "../../table/declared";
import type { TableSpec } from "../../table/spec";
import { timelineAt } from "../../ui/PageLink";

export function EventsPanel(props: { span: Span; origin: bigint; isChosen: boolean }) {
  const { span, origin, isChosen } = props;
  return (
    <div class="span-12">
      <UrlTable
        spec={TIMELINE_EVENTS_TABLE}
        path="timeline/events/"
        params={{
          start_time_ns__gte: absolute(Math.floor(span.low), origin),
          start_time_ns__lte: absolute(Math.ceil(span.high), origin),
        }}
        caption={t("Events")}
        title={
          <h2>{isChosen ? t("Events that begin in the range") : t("Events that begin here")}</h2>
        }
        onDrill={(row) => navigate(timelineAt(row.start_time_ns ?? 0, row.duration_ns ?? 1))}
      />
    </div>
  );
}

export const TIMELINE_EVENTS_TABLE: TableSpec<TimelineEventsRow> = {
  id: "events",
  noun: [t("event"), t("events")],
  columns: shownColumns(TIMELINE_EVENTS),
  defaults: { sort: "start_time_ns", pageSize: 25 },
  rowKey: (event) => `${event.event_kind} ${event.event_row}`,
};
