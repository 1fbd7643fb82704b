/** The ops tables: the full one, and the smaller one of the key node picker. */

import type { Op } from "../../api/types";
import { t } from "../../i18n";
import { stackFrames } from "../../lib/text";
import { CopyButton } from "../../ui/states";
import {
  choiceColumn,
  countColumn,
  flagColumn,
  nameColumn,
  rateColumn,
  shareColumn,
  textColumn,
  timeColumn,
  traceColumn,
} from "../columns";
import type { Column, TableSpec } from "../spec";

/** Why a cross in "Using TC" of this op deserves attention. */
export function missedTensorCores(op: Op): string | undefined {
  const isMissed = op.tc_eligible === true && op.using_tc === false;
  return isMissed ? t("Could use Tensor Cores and does not") : undefined;
}

export function opTone(op: Op): string {
  return op.using_tc === true ? "tc" : "non_tc";
}

const NAME = nameColumn<Op>("op_name", t("Op name"), { width: 300, isWide: true });
const GPU_TIME = timeColumn<Op>("gpu_time_ns", t("GPU time"), "ms", {
  hint: t("Time in which the GPU worked for this op, summed over its calls"),
});
const DIRECTION = choiceColumn<Op>("direction", t("Direction"), { width: 100 });
const TYPE = choiceColumn<Op>("op_type", t("Op type"), { width: 124 });
const CALLS = countColumn<Op>("num_calls", t("Calls"), { width: 76 });
const OP_ID = textColumn<Op>("op_id", t("Op ID"), { width: 150, isHiddenAtFirst: true });

const columns: readonly Column<Op>[] = [
  NAME,
  GPU_TIME,
  shareColumn<Op>("share_pct", t("GPU share (%)"), opTone, {
    hint: t("Of the GPU time of all ops"),
  }),
  timeColumn<Op>("cpu_time_ns", t("CPU time"), "ms", {
    hint: t("Time that the calls of this op took on the CPU"),
  }),
  DIRECTION,
  TYPE,
  CALLS,
  flagColumn<Op>("tc_eligible", t("TC eligible"), {
    width: 108,
    hint: t("Whether this op could use Tensor Cores"),
  }),
  flagColumn<Op>("using_tc", t("Using TC"), {
    width: 98,
    hint: t("Whether one of its kernels does use Tensor Cores"),
    warn: missedTensorCores,
  }),
  countColumn<Op>("kernel_calls", t("Kernel calls"), { width: 116 }),
  textColumn<Op>("data_type", t("Data type"), { width: 100 }),
  flagColumn<Op>("is_bad_data_type", t("Type without TC"), {
    width: 126,
    hint: t("Could use Tensor Cores, but runs in a data type that has none"),
    isHiddenAtFirst: true,
  }),
  rateColumn<Op>("tflops_per_second", t("TFLOP/s"), t("Operations per GPU time"), true),
  rateColumn<Op>("gbytes_per_second", t("GB/s"), t("Bytes to move per GPU time"), true),
  rateColumn<Op>("arithmetic_intensity", t("Intensity"), t("Operations per byte to move"), true),
  choiceColumn<Op>("bound", t("Bound by"), { width: 110, isHiddenAtFirst: true }),
  timeColumn<Op>("ideal_time_ns", t("Ideal time"), "ms", { isHiddenAtFirst: true }),
  timeColumn<Op>("left_time_ns", t("Left to win"), "ms", { isHiddenAtFirst: true }),
  shareColumn<Op>("peak_pct", t("Share of peak (%)"), () => "gpu", {
    full: 100,
    isHiddenAtFirst: true,
  }),
  OP_ID,
  traceColumn<Op>("stack_trace", t("Stack trace"), { width: 300 }),
];

export const OPS_TABLE: TableSpec<Op> = {
  id: "ops",
  noun: [t("op"), t("ops")],
  columns,
  defaults: { sort: "-gpu_time_ns", pageSize: 50 },
  rowKey: (op) => op.op_id,
  unfolded: (op) => <StackTrace trace={op.stack_trace} line={op.source_line} />,
};

export const KEY_NODE_TABLE: TableSpec<Op> = {
  id: "keynode",
  noun: [t("op"), t("ops")],
  columns: [NAME, DIRECTION, TYPE, CALLS, GPU_TIME, { ...OP_ID, isHiddenAtFirst: false }],
  defaults: { sort: "-gpu_time_ns", pageSize: 10 },
  rowKey: (op) => op.op_id,
};

interface StackProps {
  readonly trace: string | null | undefined;
  /** The program's own line in it. */
  readonly line: string | null | undefined;
}

export function StackTrace({ trace, line }: StackProps) {
  const frames = stackFrames(trace ?? "");
  const own = frames.lastIndexOf(line ?? "");
  return (
    <div class="stack">
      <ol>
        {frames.map((frame, index) => (
          <li key={index} class={index === own ? "own" : undefined}>
            {frame}
          </li>
        ))}
      </ol>
      <CopyButton label={t("Copy")} text={() => trace ?? ""} />
    </div>
  );
}
