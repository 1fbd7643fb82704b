/** The table of all events of a timeline. */

import type { TimelineEventsRow } from "../../api/types";
import { t } from "../../i18n";
import { shownColumns } from "../columns";
import { TIMELINE_EVENTS } from "../declared";
import type { TableSpec } from "../spec";

export const TIMELINE_EVENTS_TABLE: TableSpec<TimelineEventsRow> = {
  id: "events",
  noun: [t("event"), t("events")],
  columns: shownColumns(TIMELINE_EVENTS),
  defaults: { sort: "start_time_ns", pageSize: 25 },
  rowKey: (event) => `${event.event_kind} ${event.event_row}`,
};
