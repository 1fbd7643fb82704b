/** What ops should have cost beside what they took: "left to win" first. */

import type { OpEfficiency } from "../../api/types";
import { t } from "../../i18n";
import { Unknown } from "../../ui/states";
import {
  choiceColumn,
  countColumn,
  nameColumn,
  rateColumn,
  shareColumn,
  textColumn,
  timeColumn,
} from "../columns";
import type { TableSpec } from "../spec";
import { StackTrace } from "./ops";

const NOT_KNOWN = t("Its operations or bytes are not known.");

const BOUND: Readonly<Record<string, string>> = {
  compute: t("computing"),
  memory: t("memory"),
  link: t("bus"),
};

export function boundText(bound: string | null | undefined): string | null {
  return bound === null || bound === undefined ? null : (BOUND[bound] ?? bound);
}

export const EFFICIENCY_TABLE: TableSpec<OpEfficiency> = {
  id: "efficiency",
  noun: [t("op"), t("ops")],
  columns: [
    nameColumn<OpEfficiency>("op_name", t("Op name"), { width: 300, isWide: true }),
    timeColumn<OpEfficiency>("left_time_ns", t("Left to win"), "ms", {
      width: 150,
      hint: t("GPU time beyond what the GPU's peaks allow"),
      whenNull: NOT_KNOWN,
    }),
    timeColumn<OpEfficiency>("gpu_time_ns", t("GPU time"), "ms"),
    timeColumn<OpEfficiency>("ideal_time_ns", t("Ideal time"), "ms", {
      hint: t(
        "Per call the longer of its operations at the peak rate and its bytes at the peak bandwidth",
      ),
      whenNull: NOT_KNOWN,
    }),
    shareColumn<OpEfficiency>("peak_pct", t("Share of peak (%)"), () => "gpu", {
      width: 150,
      full: 100,
      hint: t("Ideal time over GPU time: 100 % is the roofline"),
      whenNull: NOT_KNOWN,
    }),
    rateColumn<OpEfficiency>("tflops_per_second", t("TFLOP/s"), t("Operations per GPU time")),
    rateColumn<OpEfficiency>("gbytes_per_second", t("GB/s"), t("Bytes to move per GPU time")),
    rateColumn<OpEfficiency>(
      "arithmetic_intensity",
      t("Intensity"),
      t("Operations per byte to move"),
    ),
    {
      ...choiceColumn<OpEfficiency>("bound", t("Bound by"), { width: 110, whenNull: NOT_KNOWN }),
      cell: (op) => boundText(op.bound) ?? <Unknown reason={NOT_KNOWN} />,
    },
    choiceColumn<OpEfficiency>("direction", t("Direction"), { width: 100 }),
    choiceColumn<OpEfficiency>("op_type", t("Op type"), { width: 124 }),
    countColumn<OpEfficiency>("num_calls", t("Calls"), { width: 76 }),
    choiceColumn<OpEfficiency>("precision", t("Precision"), {
      width: 110,
      hint: t("In which its matrix products ran"),
      whenNull: t("It has no matrix products."),
    }),
    countColumn<OpEfficiency>("flops", t("Operations"), {
      width: 150,
      whenNull: NOT_KNOWN,
      isHiddenAtFirst: true,
    }),
    countColumn<OpEfficiency>("bytes", t("Bytes"), {
      width: 140,
      whenNull: NOT_KNOWN,
      isHiddenAtFirst: true,
    }),
    textColumn<OpEfficiency>("unknown_reason", t("Why unknown"), { width: 260 }),
    textColumn<OpEfficiency>("op_id", t("Op ID"), { width: 150, isHiddenAtFirst: true }),
  ],
  defaults: { sort: "-left_time_ns", pageSize: 50 },
  rowKey: (op) => op.op_id,
  unfolded: (op) => <StackTrace trace={op.stack_trace ?? ""} />,
};
