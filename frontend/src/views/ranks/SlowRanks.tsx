/** Which rank makes the step slow: a sentence, and how late each rank was in each iteration. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { CanReplay, RankIterationsRow, Stragglers } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { durationText, formatFixed } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { Loaded, Skeleton } from "../../ui/states";
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

export function SlowRanks(): JSX.Element {
  const answer = useScoped<CanReplay>("can-replay/", { ranks: 1 });
  return (
    <Panel title={t("Slow ranks")} info={EXPLANATIONS.slowRanks} span={12}>
      <Loaded resource={answer} skeleton={<Skeleton lines={3} height={20} />}>
        {({ can_replay, reason }) =>
          can_replay ? <Compared /> : <p class="slow-rank-note">{reason}</p>
        }
      </Loaded>
    </Panel>
  );
}

function Compared(): JSX.Element {
  const resource = useScoped<Stragglers>("stragglers/");
  return (
    <Loaded resource={resource} skeleton={<Skeleton lines={3} height={20} />}>
      {(found) => <Found found={found} />}
    </Loaded>
  );
}

function Found({ found }: { found: Stragglers }): JSX.Element {
  const map = useMemo(() => heatMap(rowsOf(found)), [found]);
  return (
    <>
      <p class="slow-rank-note">
        <strong>{found.verdict}.</strong>{" "}
        {t("Mean step {step}; with all ranks at the median {ideal} (slowdown {slowdown}).", {
          step: durationText(found.mean_step_ns),
          ideal: durationText(found.ideal_step_ns),
          slowdown: formatFixed(found.slowdown, 3),
        })}{" "}
        {found.notes.join(" ")}
      </p>
      {map !== null && (
        <Cells
          map={map}
          label={t("Lateness of {ranks} ranks by iteration", { ranks: map.ranks.length })}
        />
      )}
    </>
  );
}
