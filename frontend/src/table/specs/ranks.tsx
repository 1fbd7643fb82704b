/** The ranks of a distributed job, and their collectives. */

import type { JSX } from "preact";
import type { Collective, Rank } from "../../api/types";
import { t } from "../../i18n";
import { formatPct } from "../../lib/units";
import { currentQuery, hrefWith, isPlainClick, navigate } from "../../state/location";
import { patchForView } from "../../state/query";
import { Unknown } from "../../ui/states";
import {
  choiceColumn,
  countColumn,
  nameColumn,
  shareColumn,
  textColumn,
  timeColumn,
} from "../columns";
import type { TableSpec } from "../spec";

const NOT_MATCHED = t("It was not found on any other rank.");

function signed(pct: number): string {
  return `${pct > 0 ? "+" : ""}${formatPct(pct)}`;
}

/** The names of a rank's ops begin with its number. */
function OpsOfRank({ rank }: { rank: number }): JSX.Element {
  const name = `/rank_${rank}/`;
  const patch = () => ({
    ...patchForView(currentQuery(), "ops"),
    "ops.q": name,
    "kernels.q": name,
  });
  const open = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    navigate(patch());
  };
  return (
    <a
      class="row-link"
      href={hrefWith(patch())}
      aria-label={t("Ops of rank {rank}", { rank })}
      onClick={open}
    >
      {rank}
    </a>
  );
}

export const RANKS_TABLE: TableSpec<Rank> = {
  id: "ranks",
  noun: [t("rank"), t("ranks")],
  columns: [
    {
      ...countColumn<Rank>("rank", t("Rank"), {
        width: 90,
        hint: t("Leads to the ops of the rank"),
      }),
      align: "left",
      cell: (row) => <OpsOfRank rank={row.rank} />,
    },
    textColumn<Rank>("host_name", t("Host"), { width: 120 }),
    countColumn<Rank>("device_id", t("Device ID"), { width: 110 }),
    shareColumn<Rank>("gpu_utilization_pct", t("GPU utilization (%)"), () => "gpu", {
      width: 180,
      full: 100,
      hint: t("Share of the aggregated time in which a kernel ran on this GPU"),
    }),
    timeColumn<Rank>("computing_ns", t("Computing"), "ms", {
      width: 150,
      hint: t("Time in which kernels ran that do not move data between GPUs"),
    }),
    {
      ...countColumn<Rank>("imbalance_pct", t("Imbalance (%)"), {
        width: 140,
        hint: t("Its computing time against the mean of all ranks; below zero: less than the mean"),
      }),
      cell: (row) => (row.imbalance_pct === null ? <Unknown /> : signed(row.imbalance_pct)),
    },
    timeColumn<Rank>("exposed_communication_ns", t("Exposed communication"), "ms", {
      width: 240,
      hint: t("Time in which data moved between GPUs while no kernel computed"),
    }),
    timeColumn<Rank>("waiting_ns", t("Waiting"), "ms", {
      hint: t("Time in collectives before the last rank came"),
      whenNull: NOT_MATCHED,
    }),
    shareColumn<Rank>("waiting_pct", t("Waiting (%)"), () => "dataloader", {
      whenNull: NOT_MATCHED,
    }),
    countColumn<Rank>("times_last", t("Times last"), {
      width: 110,
      hint: t("Collectives in which the others waited for this rank"),
    }),
    timeColumn<Rank>("kept_waiting_ns", t("Kept others waiting"), "ms", {
      width: 220,
      hint: t("What the other ranks together waited for this one"),
      whenNull: NOT_MATCHED,
    }),
    countColumn<Rank>("collective_count", t("Collectives"), { width: 110 }),
    countColumn<Rank>("unmatched_count", t("Unmatched"), {
      width: 110,
      hint: t("Collectives in which no other rank was found"),
    }),
    timeColumn<Rank>("communication_ns", t("Communication"), "ms", {
      width: 180,
      isHiddenAtFirst: true,
    }),
    countColumn<Rank>("kernel_count", t("Kernels"), { isHiddenAtFirst: true }),
    choiceColumn<Rank>("aligned_by", t("Clock aligned by"), { width: 150 }),
    timeColumn<Rank>("clock_residual_ns", t("Clock residual"), "µs", {
      width: 170,
      hint: t("How far its ends of collectives lie from the first rank's, median"),
      whenNull: t("There was nothing to compare it with."),
    }),
    timeColumn<Rank>("clock_offset_ns", t("Clock offset"), "ms", { isHiddenAtFirst: true }),
    nameColumn<Rank>("source_file", t("File"), { width: 220 }),
  ],
  defaults: { sort: "rank", pageSize: 50 },
  rowKey: (rank) => String(rank.rank),
};

export const COLLECTIVES_TABLE: TableSpec<Collective> = {
  id: "collectives",
  noun: [t("collective"), t("collectives")],
  columns: [
    {
      ...countColumn<Collective>("sequence", t("Call"), { width: 90, whenNull: NOT_MATCHED }),
      align: "left",
    },
    choiceColumn<Collective>("collective_name", t("Collective"), { width: 130 }),
    countColumn<Collective>("rank", t("Rank"), { width: 90 }),
    timeColumn<Collective>("waiting_ns", t("Waiting"), "ms", {
      hint: t("Time between its start and that of the last rank it waited for"),
      whenNull: NOT_MATCHED,
    }),
    timeColumn<Collective>("duration_ns", t("Duration"), "ms"),
    countColumn<Collective>("bytes", t("Bytes"), {
      width: 120,
      hint: t("What this rank put into the collective"),
      whenNull: t("Neither a range around the call nor the kernel's name tells the size."),
    }),
    timeColumn<Collective>("start_time_ns", t("Start"), "ms"),
    countColumn<Collective>("iteration_index", t("Iteration"), { width: 100 }),
    timeColumn<Collective>("kept_waiting_ns", t("Kept others waiting"), "ms", {
      width: 220,
      whenNull: NOT_MATCHED,
    }),
    countColumn<Collective>("rank_count", t("Ranks"), { width: 90 }),
    countColumn<Collective>("communicator", t("Group"), {
      width: 90,
      hint: t("Ranks that call collectives together"),
      whenNull: NOT_MATCHED,
    }),
    nameColumn<Collective>("kernel_name", t("Kernel name"), { width: 300, isWide: true }),
  ],
  defaults: { sort: "-waiting_ns", pageSize: 25 },
  rowKey: (call) => `${call.rank} ${call.start_time_ns}`,
};
