/** Ops and kernels: two linked tables. A row of the first fills the second, and the address. */

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { MergedKernelsRow, OpKernelsRow, OpsRow } from "../../api/types";
import { t } from "../../i18n";
import { useQuery } from "../../state/location";
import { useScope, useScoped } from "../../state/scope";
import { UrlTable } from "../../table/DataTable";
import type { TableSpec } from "../../table/spec";
import {
  ALL_KERNELS_TABLE,
  MERGED_KERNELS_TABLE,
  OP_KERNELS_TABLE,
} from "../../table/specs/kernels";
import { MERGED_OPS_TABLE, OPS_OF_ONE_TABLE, OPS_TABLE } from "../../table/specs/ops";
import { useUrlTable } from "../../table/useTableState";
import { Segmented } from "../../ui/Segmented";
import { Empty } from "../../ui/states";
import { OpPane } from "../details/OpPage";
import { focusRows, focusRowsSoon, selectRow } from "../linking";
import { NoOps } from "../NoOps";
import { areOpsMerged, areRanksMerged, EACH, followedOps, isOfRanks } from "./merging";

const KERNEL_ROWS = "kernel-rows";
const OP_ROWS = "op-rows";

function selectOp(opId: string | null): void {
  selectRow({ op: opId }, ["kernels"]);
}

export default function OpsView() {
  const query = useQuery();
  const hasRanks = isOfRanks(useScope().profile);
  const isMerged = hasRanks && areRanksMerged(query);
  const selected = query.get("op") ?? null;
  const choice = hasRanks && <RanksChoice isMerged={isMerged} />;
  return (
    <div class={selected === null ? "view view-split" : "view view-split has-pane"}>
      <h1 class="visually-hidden">{t("Ops and kernels")}</h1>
      {isMerged ? (
        <OpsTable spec={MERGED_OPS_TABLE} path="merged-ops/" choice={choice} />
      ) : (
        <OpsTable spec={hasRanks ? OPS_TABLE : OPS_OF_ONE_TABLE} path="ops/" choice={choice} />
      )}
      {selected === null ? (
        <KernelsOfOps isMerged={isMerged} />
      ) : (
        <SelectedOp opId={selected} key={selected} />
      )}
    </div>
  );
}

/** One row for the same op on all ranks, or one for each rank. */
function RanksChoice({ isMerged }: { isMerged: boolean }) {
  return (
    <Segmented
      label={t("Ranks")}
      choices={[
        [true, t("Ranks merged")],
        [false, t("Each rank")],
      ]}
      value={isMerged}
      onChange={(value) =>
        selectRow(value ? MERGED : { op: null, ranks: EACH }, ["ops", "kernels"])
      }
    />
  );
}

const MERGED = { op: null, ranks: null } as const;

function OpsTable<Row extends { readonly op_id: string }>(props: {
  spec: TableSpec<Row>;
  path: string;
  choice: ComponentChildren;
}) {
  const query = useQuery();
  return (
    <UrlTable
      key={props.path}
      spec={props.spec}
      path={props.path}
      caption={t("Ops")}
      title={
        <>
          <h2>{t("Ops")}</h2>
          {props.choice}
        </>
      }
      selected={query.get("op") ?? null}
      onSelect={(op) => selectOp(op.op_id)}
      onDrill={(op) => {
        selectOp(op.op_id);
        focusRowsSoon(KERNEL_ROWS);
      }}
      onBack={() => selectOp(null)}
      whenEmpty={<NoOps />}
      bodyId={OP_ROWS}
    />
  );
}

/** The kernels of the ops above: of all, or of those that pass the filters there. */
function KernelsOfOps({ isMerged }: { isMerged: boolean }) {
  const query = useQuery();
  const areMerged = areOpsMerged(query);
  const ops = useUrlTable(OPS_TABLE, query);
  const followed = followedOps(ops.state);
  const params = useMemo(
    () => (isMerged ? { of_merged_ops: followed } : { of_ops: followed }),
    [followed, isMerged],
  );
  const whose = followed === null ? t("of all ops") : t("of the ops that pass the filters");
  const shared = {
    params,
    caption: followed === null ? t("Kernels of all ops") : t("Kernels of the filtered ops"),
    title: (
      <>
        <h2>
          {t("Kernels")} <span class="table-subject">{whose}</span>
        </h2>
        <OpsChoice areMerged={areMerged} />
      </>
    ),
    onBack: () => focusRows(OP_ROWS),
    bodyId: KERNEL_ROWS,
  };
  if (!areMerged) {
    return (
      <UrlTable
        key="each"
        spec={ALL_KERNELS_TABLE}
        path="kernels/"
        onSelect={(kernel) => {
          if (kernel.op_id !== undefined) selectOp(kernel.op_id);
        }}
        {...shared}
      />
    );
  }
  return (
    <UrlTable
      key="merged"
      spec={MERGED_KERNELS_TABLE}
      path="merged-kernels/"
      onSelect={showOpsOfKernel}
      {...shared}
    />
  );
}

/** The rows of one kernel: one for each op that launches it. */
function showOpsOfKernel(kernel: MergedKernelsRow): void {
  const name = kernel.kernel_long_name === null ? "kernel_name" : "kernel_long_name";
  const filter = { [`kernels.f.${name}`]: kernel[name] };
  selectRow({ rows: "op", ...filter }, ["kernels"]);
}

/** One row for each kernel, or one for each op that launches it. */
function OpsChoice({ areMerged }: { areMerged: boolean }) {
  return (
    <Segmented
      label={t("Kernels")}
      choices={[
        [true, t("Ops merged")],
        [false, t("Each op")],
      ]}
      value={areMerged}
      onChange={(value) => selectRow({ rows: value ? null : "op" }, ["kernels"])}
    />
  );
}

/** The selected op beside the table; its kernels are a table as well. */
function SelectedOp({ opId }: { opId: string }) {
  const op = useScoped<OpsRow>(`ops/${encodeURIComponent(opId)}/`);
  return (
    <OpPane opId={opId} onClose={() => selectOp(null)}>
      <UrlTable
        spec={KERNELS_IN_PANE}
        path={`ops/${encodeURIComponent(opId)}/kernels/`}
        caption={t("Kernels of {name}", { name: op.data?.op_name ?? opId })}
        title={<h2>{t("Kernels")}</h2>}
        onBack={() => focusRows(OP_ROWS)}
        whenEmpty={
          <Empty title={t("This op launched no kernels")}>{t("All its time was CPU time.")}</Empty>
        }
        bodyId={KERNEL_ROWS}
      />
    </OpPane>
  );
}

/** What there is room for beside the ops; the rest can be chosen. */
const IN_PANE = new Set(["readable_name", "gpu_time_ns", "uses_tc", "num_calls"]);

const KERNELS_IN_PANE: TableSpec<OpKernelsRow> = {
  ...OP_KERNELS_TABLE,
  columns: OP_KERNELS_TABLE.columns.map((column) => ({
    ...column,
    isHiddenAtFirst: !IN_PANE.has(column.key),
    ...(column.key === "readable_name" ? { width: 160 } : {}),
  })),
};
