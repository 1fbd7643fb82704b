/** The events that begin in some time as a table: sorted, filtered, exported, by keys alone. */

import { t } from "../../i18n";
import { absolute, type Span } from "../../lib/timeline";
import { navigate } from "../../state/location";
import { UrlTable } from "../../table/DataTable";
import { TIMELINE_EVENTS_TABLE } from "../../table/specs/timeline";
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
