/** Whether one rank keeps the others waiting, in a sentence. Pure functions only. */

import type { RanksRow, Stragglers } from "../../api/types";
import { t } from "../../i18n";
import { durationText, formatInt, formatPct } from "../../lib/units";

/** Share of all waiting that one rank must cause to be named, as the advice on late ranks has it. */
const MAIN_RATIO = 0.6;

export interface RankVerdict {
  readonly sentence: string;
  /** The rank that is late; null: none is. */
  readonly late: number | null;
}

function range(values: readonly number[]): string {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low === high ? formatInt(low) : t("{low} to {high}", { low, high });
}

/** What the replay of the ranks against each other found; null: they cannot be replayed. */
export type Compared = Pick<Stragglers, "slow_rank" | "slowdown" | "verdict">;

/** Waiting alone makes no step longer: where the replay says who does, that is the verdict. */
export function rankVerdict(
  ranks: readonly RanksRow[],
  compared: Compared | null = null,
): RankVerdict {
  // It says in which steps the rank is late; a mean over all collectives would hide that.
  if (compared !== null && compared.slow_rank !== null) {
    return { sentence: `${compared.verdict}.`, late: compared.slow_rank };
  }
  const waiting = waitingVerdict(ranks);
  if (compared === null || waiting.late === null) return waiting;
  const sentence = t(
    "No straggler: rank {rank} causes {share} % of all waiting, but with all ranks at the median the step would be only {gain} % shorter.",
    {
      rank: waiting.late ?? 0,
      share: formatPct(waiting.sharePct),
      gain: formatPct(100 - 100 / Math.max(compared.slowdown, 1)),
    },
  );
  return { sentence, late: null };
}

/** As far as the ranks waited for each other in collectives. */
function waitingVerdict(ranks: readonly RanksRow[]): RankVerdict & { readonly sharePct: number } {
  const judged = ranks.filter((rank) => rank.kept_waiting_ns !== null);
  const caused = judged.reduce((sum, rank) => sum + (rank.kept_waiting_ns ?? 0), 0);
  if (judged.length < 2) {
    const sentence = t(
      "Whether a rank is late is unknown: no collectives were matched between the ranks.",
    );
    return { sentence, late: null, sharePct: 0 };
  }
  const worst = judged.reduce((best, rank) =>
    (rank.kept_waiting_ns ?? 0) > (best.kept_waiting_ns ?? 0) ? rank : best,
  );
  const kept = worst.kept_waiting_ns ?? 0;
  const lasts = worst.times_last ?? 0;
  if (caused > 0 && kept >= MAIN_RATIO * caused && lasts > 0) {
    const sentence = t(
      "Rank {rank} is late: last in {last} of {count} collectives, by {late} on average; it causes {share} % of all waiting.",
      {
        rank: worst.rank,
        last: formatInt(lasts),
        count: formatInt(worst.collective_count ?? 0),
        late: durationText(kept / (judged.length - 1) / lasts),
        share: formatPct((100 * kept) / caused),
      },
    );
    return { sentence, late: worst.rank, sharePct: (100 * kept) / caused };
  }
  const last = range(judged.map((rank) => rank.times_last ?? 0));
  const count = range(judged.map((rank) => rank.collective_count ?? 0));
  const sentence = t("No straggler: no rank is last in most of the {count} collectives ({last}).", {
    last,
    count,
  });
  return { sentence, late: null, sharePct: 0 };
}
