/** Ranks of a distributed job: how busy each was, and how long it waited for the others. */

import type { ListPage } from "../../api/lists";
import { isReport } from "../../api/source";
import type { CanReplay, RanksRow, Stragglers } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { useScoped } from "../../state/scope";
import { UrlTable } from "../../table/DataTable";
import { COLLECTIVES_TABLE, RANKS_TABLE } from "../../table/specs/ranks";
import { Panel } from "../../ui/Panel";
import { ScaleSwitch } from "../../ui/ScaleSwitch";
import { Loaded, Skeleton } from "../../ui/states";
import { RankBars } from "./RankBars";
import { RankHeatMap, SlowRanks } from "./RankHeatMap";
import { type Compared, rankVerdict } from "./verdict";

/** Whether a rank is late comes first; one heat map says when. */
function Lateness() {
  const answer = useScoped<CanReplay>("can-replay/", { ranks: 1 });
  return (
    <Loaded resource={answer} skeleton={<Skeleton lines={3} height={22} />}>
      {({ can_replay, reason }) =>
        can_replay ? (
          <Replayed />
        ) : (
          <>
            <Sentence compared={null} />
            <p class="slow-rank-note">{reason}</p>
            <RankHeatMap />
          </>
        )
      }
    </Loaded>
  );
}

function Replayed() {
  const found = useScoped<Stragglers>("stragglers/");
  return (
    <Loaded resource={found} skeleton={<Skeleton lines={3} height={22} />}>
      {(compared) => (
        <>
          <Sentence compared={compared} />
          <SlowRanks found={compared} />
        </>
      )}
    </Loaded>
  );
}

function Sentence({ compared }: { compared: Compared | null }) {
  const ranks = useScoped<ListPage<RanksRow>>("ranks/", { page_size: 200, ordering: "rank" });
  return (
    <Loaded resource={ranks} skeleton={<Skeleton lines={1} height={22} />}>
      {({ results }) => <p class="rank-verdict">{rankVerdict(results, compared).sentence}</p>}
    </Loaded>
  );
}

export default function RanksView() {
  return (
    <div class="view view-ranks">
      <h1 class="visually-hidden">{t("Ranks")}</h1>
      {isReport() ? (
        <>
          <Sentence compared={null} />
          <RankHeatMap />
        </>
      ) : (
        <Lateness />
      )}
      <Panel
        title={t("Where the time of each rank goes")}
        info={EXPLANATIONS.ranks}
        span={12}
        actions={<ScaleSwitch />}
      >
        <RankBars />
      </Panel>
      <UrlTable spec={RANKS_TABLE} path="ranks/" caption={t("Ranks")} />
      <UrlTable spec={COLLECTIVES_TABLE} path="collectives/" caption={t("Collectives")} />
    </div>
  );
}
