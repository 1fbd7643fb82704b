/** The ops of one iteration. */

import type { IterationOp } from "../../api/types";
import { t } from "../../i18n";
import { choiceColumn, countColumn, nameColumn, timeColumn, traceColumn } from "../columns";
import type { TableSpec } from "../spec";
import { StackTrace } from "./ops";

export const ITERATION_OPS_TABLE: TableSpec<IterationOp> = {
  id: "iterops",
  noun: [t("op"), t("ops")],
  columns: [
    nameColumn<IterationOp>("op_name", t("Op name"), { width: 300, isWide: true }),
    choiceColumn<IterationOp>("direction", t("Direction"), { width: 100 }),
    choiceColumn<IterationOp>("op_type", t("Op type"), { width: 130 }),
    timeColumn<IterationOp>("op_start_ns", t("Op start"), "ms", {
      width: 130,
      hint: t(
        "Start of its first instance in this iteration, counted from the start of the profile",
      ),
      whenNull: t("Its call began in an earlier iteration."),
    }),
    countColumn<IterationOp>("total_kernel_count", t("Total kernels"), { width: 118 }),
    countColumn<IterationOp>("tc_kernel_count", t("TC kernels"), { width: 106 }),
    timeColumn<IterationOp>("gpu_time_ns", t("Total GPU time"), "µs", { width: 170 }),
    timeColumn<IterationOp>("tc_gpu_time_ns", t("TC GPU time"), "µs", { width: 140 }),
    choiceColumn<IterationOp>("data_type", t("Data type"), { width: 110 }),
    traceColumn<IterationOp>("stack_trace", t("Stack trace"), { width: 300 }),
  ],
  defaults: { sort: "-gpu_time_ns", pageSize: 50 },
  rowKey: (op) => op.op_id,
  unfolded: (op) => <StackTrace trace={op.stack_trace} line={op.source_line} />,
};
