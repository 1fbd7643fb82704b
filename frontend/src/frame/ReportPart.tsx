/** In the top bar: the way to a report in one file, or, in such a report, what it is. */

import type { JSX } from "preact";
import { isReport } from "../api/source";
import { t } from "../i18n";
import { scopedUrl, useScope } from "../state/scope";
import { Icon } from "../ui/icons";

export function ReportPart(): JSX.Element {
  return isReport() ? <ReportBadge /> : <ReportLink />;
}

/** The profile as one file: to send, to keep, to read without a server. */
function ReportLink(): JSX.Element {
  const scope = useScope();
  const label = t("Download this profile as a report in one file");
  return (
    <a
      class="icon-button only-wide"
      href={scopedUrl(scope, "report/")}
      download
      aria-label={label}
      title={label}
    >
      <Icon name="download" />
    </a>
  );
}

/** A note that this is a report in a file, not a live view of the profile. */
function ReportBadge(): JSX.Element {
  const { aggregation } = useScope();
  const text = t("Aggregation #{id}, in one file; it needs no server.", {
    id: aggregation.id,
  });
  return (
    <span class="topbar-badge only-wide" title={text}>
      {t("Report")}
    </span>
  );
}
