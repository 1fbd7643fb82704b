/** Below a table of a report: how many rows of the profile are not in it. */

import type { Cut } from "../api/lists";
import { t } from "../i18n";
import { countOf, formatInt } from "../lib/units";

export function TruncationNote(props: {
  cut: Cut | undefined;
  noun: readonly [one: string, many: string];
}) {
  const { cut, noun } = props;
  if (cut === undefined || cut.held === cut.count) return null;
  return (
    <p class="left-out">
      {t("This report contains the first {held} of {all}; the viewer shows all of them.", {
        held: formatInt(cut.held),
        all: countOf(cut.count, noun),
      })}
    </p>
  );
}
