/** Tables of ops: all of them, those of the key node dialog, of an iteration, and op types. */

import type { ComponentChildren } from "preact";
import type { IterationOpsRow, MergedOpsRow, OpsRow, OpTypesRow } from "../../api/types";
import { t } from "../../i18n";
import { rangesText, stackFrames } from "../../lib/text";
import { Direction, Flag } from "../../ui/Name";
import { OpName } from "../../ui/PageLink";
import { CopyButton } from "../../ui/states";
import { pickColumns, shareOf, shownColumns } from "../columns";
import { ITERATION_OPS, MERGED_OPS, OP_TYPES, OPS } from "../declared";
import type { CellContext, TableSpec } from "../spec";

interface TensorCoreUse {
  readonly tc_eligible: boolean | null;
  readonly using_tc: boolean | null;
}

/** Why a cross in "Using TC" of this op deserves attention. */
export function missedTensorCores(op: TensorCoreUse): string | undefined {
  const isMissed = op.tc_eligible === true && op.using_tc === false;
  return isMissed ? t("Could use Tensor Cores and does not") : undefined;
}

/** An op without Tensor Cores may launch all other kinds of kernels, communication too. */
export function opTone(op: TensorCoreUse): string {
  return op.using_tc === true ? "tc" : "gpu";
}

export const direction = { width: 96, draw: (value: string) => <Direction value={value} /> };

/** One narrow column: used, not used, or not used where they could be. */
const USING_TC = {
  using_tc: {
    title: t("TC"),
    hint: t(
      "Whether one of its kernels used Tensor Cores. Red, with a mark: it could and does not; gray: it cannot.",
    ),
    lacking: { key: "tc_eligible", label: t("could, does not") },
    width: 84,
    draw: (value: boolean, op: TensorCoreUse) => (
      <Flag value={value} warn={missedTensorCores(op)} />
    ),
  },
};

export const op_name = {
  draw: (name: string, op: { readonly op_id: string }, context: CellContext) => (
    <OpName opId={op.op_id} name={name} short={context.short?.("op_name", name)} />
  ),
};

export const OPS_TABLE: TableSpec<OpsRow> = {
  id: "ops",
  noun: [t("op"), t("ops")],
  columns: shownColumns(OPS, {
    direction,
    op_name,
    share_pct: shareOf<OpsRow>("share_pct", opTone),
    ...USING_TC,
  }),
  defaults: { sort: "-gpu_time_ns", pageSize: 50 },
  rowKey: (op) => op.op_id,
  unfolded: (op) => <StackTrace trace={op.stack_trace} line={op.source_line} />,
};

/** For a profile of one rank. */
export const OPS_OF_ONE_TABLE: TableSpec<OpsRow> = {
  ...OPS_TABLE,
  columns: OPS_TABLE.columns.filter((column) => column.key !== "rank"),
};

/** "0–3" for the ranks "0,1,2,3". */
function ranksCell(ranks: string): ComponentChildren {
  return <span title={ranks}>{rangesText(ranks.split(",").map(Number))}</span>;
}

/** A row for the same op on all ranks; its key is the op on the slowest of them. */
export const MERGED_OPS_TABLE: TableSpec<MergedOpsRow> = {
  id: OPS_TABLE.id,
  noun: OPS_TABLE.noun,
  columns: shownColumns(MERGED_OPS, {
    direction,
    op_name,
    ranks: { draw: ranksCell, width: 76 },
    share_pct: shareOf<MergedOpsRow>("share_pct", opTone),
    imbalance_pct: shareOf("imbalance_pct", () => "gpu"),
    ...USING_TC,
  }),
  defaults: OPS_TABLE.defaults,
  rowKey: (op) => op.op_id,
  unfolded: (op) => <StackTrace trace={op.stack_trace} line={op.source_line} />,
};

export const KEY_NODE_TABLE: TableSpec<OpsRow> = {
  id: "keynode",
  isOfDialog: true,
  // Made of the op's own name: the path of an op contains the names of all ranges around it.
  searchIn: "op_id",
  noun: OPS_TABLE.noun,
  // Without links: they would leave the dialog.
  columns: pickColumns(shownColumns(OPS, { direction }), [
    "op_name",
    "direction",
    "op_type",
    "num_calls",
    "gpu_time_ns",
    "op_id",
  ]),
  defaults: { sort: "-gpu_time_ns", pageSize: 10 },
  rowKey: (op) => op.op_id,
};

export const ITERATION_OPS_TABLE: TableSpec<IterationOpsRow> = {
  id: "iterops",
  noun: OPS_TABLE.noun,
  columns: shownColumns(ITERATION_OPS, { direction, op_name }),
  defaults: { sort: "-gpu_time_ns", pageSize: 50 },
  rowKey: (op) => op.op_id,
  unfolded: (op) => <StackTrace trace={op.stack_trace} line={op.source_line} />,
};

export const OP_TYPES_TABLE: TableSpec<OpTypesRow> = {
  id: "types",
  noun: [t("op type"), t("op types")],
  columns: shownColumns(OP_TYPES, { op_type: { width: 200, isWide: true } }),
  defaults: { sort: "-gpu_time_ns", pageSize: 50 },
  rowKey: (type) => type.op_type,
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
