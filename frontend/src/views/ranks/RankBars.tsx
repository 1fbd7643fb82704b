/** Where the time of each rank goes: parts that add up to the wall clock time. */

import type { ListPage } from "../../api/lists";
import type { PerformanceSummary, RanksRow } from "../../api/types";
import { t } from "../../i18n";
import { type Scale, sumText, useScale } from "../../lib/perStep";
import { formatPct } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { Loaded, Skeleton } from "../../ui/states";

const PARTS = [
  ["computing", t("Computing")],
  ["transfer", t("Exposed transfer")],
  ["waiting", t("Exposed waiting for other ranks")],
  ["communication", t("Communication and waiting in it, while nothing is computed")],
  ["copies", t("Copies and other work of the GPU")],
  ["idle", t("GPU idle")],
  ["rest", t("GPU idle or copying")],
] as const;

type Part = (typeof PARTS)[number][0];

/**
 * The parts of a rank. Communication is one part where its waiting is unknown; so is the rest
 * where it is unknown when the GPU was busy, as in older databases. Unit: ns.
 */
export function partsOf(rank: RanksRow, wallNs: number): Readonly<Record<Part, number>> {
  const computing = rank.computing_ns ?? 0;
  const exposed = rank.exposed_communication_ns ?? 0;
  const waiting = rank.exposed_waiting_ns ?? 0;
  const transfer = rank.exposed_transfer_ns ?? 0;
  const busy = rank.busy_ns;
  const kernels = computing + exposed;
  return {
    computing,
    transfer,
    waiting,
    communication: exposed - waiting - transfer,
    copies: busy === null ? 0 : Math.max(busy - kernels, 0),
    idle: busy === null ? 0 : Math.max(wallNs - busy, 0),
    rest: busy === null ? Math.max(wallNs - kernels, 0) : 0,
  };
}

export function RankBars() {
  const ranks = useScoped<ListPage<RanksRow>>("ranks/", { page_size: 200, ordering: "rank" });
  const wall =
    useScoped<PerformanceSummary>("performance-summary/").data?.wall_clock_time_ns ?? null;
  const scale = useScale();
  return (
    <Loaded resource={ranks} skeleton={<Skeleton lines={3} height={22} />}>
      {({ results }) => (
        <div class="rank-bars">
          {results.map((rank) => (
            <Bar key={rank.rank} rank={rank} wall={wall} scale={scale} />
          ))}
          <ul class="chain-legend">
            {PARTS.filter(([part]) =>
              results.some((rank) => partsOf(rank, wall ?? 0)[part] > 0),
            ).map(([part, label]) => (
              <li key={part}>
                <span class={`swatch rank-${part}`} />
                {label}
              </li>
            ))}
          </ul>
        </div>
      )}
    </Loaded>
  );
}

function Bar(props: { rank: RanksRow; wall: number | null; scale: Scale }) {
  const { rank, wall, scale } = props;
  const known = partsOf(rank, wall ?? 0);
  const whole = PARTS.reduce((sum, [part]) => sum + known[part], 0);
  const share = (part: Part) => (100 * known[part]) / Math.max(whole, 1);
  const shown = PARTS.filter(([part]) => known[part] > 0);
  const words = shown.map(([part, label]) => `${label} ${formatPct(share(part))} %`).join(", ");
  return (
    <div class="rank-bar">
      <span class="rank-bar-name">{t("Rank {rank}", { rank: rank.rank })}</span>
      <div class="stacked-bar" role="img" aria-label={words}>
        {shown.map(([part, label]) => (
          <span
            key={part}
            class={`rank-${part}`}
            style={{ flexGrow: known[part] }}
            title={`${label}: ${sumText(known[part], scale)}, ${formatPct(share(part))} %`}
          >
            {formatPct(share(part))} %
          </span>
        ))}
      </div>
      <span class="rank-bar-whole">{sumText(whole, scale)}</span>
    </div>
  );
}
