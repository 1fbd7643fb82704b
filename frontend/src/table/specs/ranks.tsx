/** GPUs, the ranks of a distributed job, and their collectives. */

import type { CollectivesRow, GpusRow, RanksRow } from "../../api/types";
import { t } from "../../i18n";
import { formatPct } from "../../lib/units";
import { PageAnchor } from "../../ui/PageLink";
import { shareOf, shownColumns } from "../columns";
import { COLLECTIVES, GPUS, RANKS } from "../declared";
import type { TableSpec } from "../spec";

export const GPUS_TABLE: TableSpec<GpusRow> = {
  id: "gpus",
  noun: [t("GPU"), t("GPUs")],
  columns: shownColumns(GPUS, {
    device_id: { isFilterable: false },
    gpu_name: { width: 180, isWide: true },
  }),
  defaults: { sort: "device_id", pageSize: 50 },
  rowKey: (gpu) => `${gpu.device_id} ${gpu.gpu_name}`,
};

/** The names of a rank's ops begin with its number. */
function OpsOfRank({ rank }: { rank: number }) {
  return (
    <PageAnchor
      class="row-link"
      to={{ view: "ops", "ops.q": `/rank_${rank}/` }}
      label={t("Ops of rank {rank}", { rank })}
    >
      {rank}
    </PageAnchor>
  );
}

export const RANKS_TABLE: TableSpec<RanksRow> = {
  id: "ranks",
  noun: [t("rank"), t("ranks")],
  columns: shownColumns(RANKS, {
    rank: { align: "left", draw: (rank: number) => <OpsOfRank rank={rank} /> },
    imbalance_pct: { draw: (pct: number) => `${pct > 0 ? "+" : ""}${formatPct(pct)}` },
    waiting_pct: shareOf("waiting_pct", () => "waiting"),
    source_file: { width: 220 },
  }),
  defaults: { sort: "rank", pageSize: 50 },
  rowKey: (rank) => String(rank.rank),
};

export const COLLECTIVES_TABLE: TableSpec<CollectivesRow> = {
  id: "collectives",
  noun: [t("collective"), t("collectives")],
  columns: shownColumns(COLLECTIVES, {
    sequence: { align: "left" },
    bytes: { width: 120 },
    kernel_name: { width: 300, isWide: true },
  }),
  defaults: { sort: "-waiting_ns", pageSize: 25 },
  rowKey: (call) => `${call.rank} ${call.start_time_ns}`,
};
