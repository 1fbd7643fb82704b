/** Op types: one row for all ops of a kind, with the sixteen times. */

import type { OpType } from "../../api/types";
import { t } from "../../i18n";
import { countColumn, textColumn, timeColumn } from "../columns";
import type { Column, TableSpec } from "../spec";

interface Family {
  readonly stem: "gpu_time" | "cpu_time" | "cpu_overhead" | "gpu_idle";
  readonly titles: readonly [sum: string, avg: string, min: string, max: string];
  readonly hint: string;
  readonly areDetailsHidden: boolean;
}

const FAMILIES: readonly Family[] = [
  {
    stem: "gpu_time",
    titles: [t("GPU time"), t("GPU avg"), t("GPU min"), t("GPU max")],
    hint: t("Time in which the GPU worked for ops of this type"),
    areDetailsHidden: false,
  },
  {
    stem: "cpu_time",
    titles: [t("CPU time"), t("CPU avg"), t("CPU min"), t("CPU max")],
    hint: t("Time that the calls took on the CPU, with all that they called"),
    areDetailsHidden: false,
  },
  {
    stem: "cpu_overhead",
    titles: [t("CPU overhead"), t("Overhead avg"), t("Overhead min"), t("Overhead max")],
    hint: t("CPU time outside of CUDA calls"),
    areDetailsHidden: true,
  },
  {
    stem: "gpu_idle",
    titles: [t("GPU idle"), t("Idle avg"), t("Idle min"), t("Idle max")],
    hint: t("Gaps between the device work of a call, in which the GPU waited"),
    areDetailsHidden: true,
  },
];

/** Sum in ms, the figures of one call in µs. */
function familyColumns(family: Family): readonly Column<OpType>[] {
  const { stem, titles, hint, areDetailsHidden: isHiddenAtFirst } = family;
  const sum = { hint, width: stem === "cpu_overhead" ? 156 : 126 };
  const ofCall = { isHiddenAtFirst, hint: `${hint} (${t("one call")})`, width: 124 };
  return [
    timeColumn<OpType>(`${stem}_ns`, titles[0], "ms", sum),
    timeColumn<OpType>(`${stem}_avg_ns`, titles[1], "µs", ofCall),
    timeColumn<OpType>(`${stem}_min_ns`, titles[2], "µs", ofCall),
    timeColumn<OpType>(`${stem}_max_ns`, titles[3], "µs", ofCall),
  ];
}

export const OP_TYPES_TABLE: TableSpec<OpType> = {
  id: "types",
  noun: [t("op type"), t("op types")],
  columns: [
    { ...textColumn<OpType>("op_type", t("Op type"), { width: 200 }), isWide: true },
    countColumn<OpType>("num_ops", t("Ops"), {
      hint: t("Different ops of this type in the model"),
    }),
    countColumn<OpType>("num_calls", t("Calls"), {
      hint: t("How often ops of this type were called in the aggregated iterations"),
    }),
    ...FAMILIES.flatMap(familyColumns),
  ],
  defaults: { sort: "-gpu_time_ns", pageSize: 50 },
  rowKey: (type) => type.op_type,
};
