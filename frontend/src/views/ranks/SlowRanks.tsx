/** Which rank makes the step slow: a sentence, and how late each rank was in each iteration. */

import { useMemo } from "preact/hooks";
import type { RankIterationsRow, Stragglers } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { durationText, formatPct } from "../../lib/units";
import { Panel } from "../../ui/Panel";
import { heatMap } from "./heat";
import { Cells } from "./RankHeatMap";

function rowsOf(found: Stragglers): RankIterationsRow[] {
  return found.iterations.flatMap((step) =>
    found.ranks.map(({ rank }, place) => ({
      iteration_index: step.iteration_index,
      rank,
      collective_count: 0,
      waiting_ns: null,
      kept_waiting_ns: Math.max(step.late_ns[place] ?? 0, 0),
    })),
  );
}

export function SlowRanks({ found }: { found: Stragglers }) {
  const map = useMemo(() => heatMap(rowsOf(found)), [found]);
  return (
    <Panel title={t("Slow ranks")} info={EXPLANATIONS.slowRanks} span={12}>
      <p class="slow-rank-note">
        {t(
          "The mean step of {step} is {share} % longer than with all ranks at the median: {ideal}.",
          {
            step: durationText(found.mean_step_ns),
            ideal: durationText(found.ideal_step_ns),
            share: formatPct(100 * (found.slowdown - 1)),
          },
        )}{" "}
        {found.notes.join(" ")}
      </p>
      {map !== null && (
        <Cells
          map={map}
          label={t("Lateness of {ranks} ranks by iteration", { ranks: map.ranks.length })}
        />
      )}
    </Panel>
  );
}
