/** Ops and kernels: two linked tables. A row of the first fills the second, and the address. */

import type { JSX } from "preact";
import { useCallback } from "preact/hooks";
import type { KernelsRow, OpsRow } from "../../api/types";
import { t } from "../../i18n";
import { useQuery } from "../../state/location";
import { useScope, useScoped } from "../../state/scope";
import { DataTable } from "../../table/DataTable";
import { ALL_KERNELS_TABLE, OP_KERNELS_TABLE } from "../../table/specs/kernels";
import { OPS_TABLE } from "../../table/specs/ops";
import { useUrlTable } from "../../table/useTableState";
import { Icon } from "../../ui/icons";
import { Direction, Name } from "../../ui/Name";
import { Empty } from "../../ui/states";
import { focusRows, focusRowsSoon, selectRow } from "../linking";
import { NoOps } from "../NoOps";

const KERNEL_ROWS = "kernel-rows";
const OP_ROWS = "op-rows";

function selectOp(opId: string | null): void {
  selectRow({ op: opId }, ["kernels"]);
}

export function OpsView(): JSX.Element {
  const query = useQuery();
  const { profile } = useScope();
  const selected = query.get("op") ?? null;
  const ops = useUrlTable(OPS_TABLE, query);
  const drill = useCallback((op: OpsRow) => {
    selectOp(op.op_id);
    focusRowsSoon(KERNEL_ROWS);
  }, []);
  return (
    <div class="view view-split">
      <h1 class="visually-hidden">{t("Ops and kernels")}</h1>
      <DataTable
        spec={OPS_TABLE}
        control={ops}
        path="ops/"
        caption={t("Ops")}
        title={<h2>{t("Ops")}</h2>}
        selected={selected}
        onSelect={(op) => selectOp(op.op_id)}
        onDrill={drill}
        onBack={() => selectOp(null)}
        whenEmpty={<NoOps reason={profile.info.no_ops_reason ?? null} />}
        bodyId={OP_ROWS}
      />
      {selected === null ? <AllKernels /> : <KernelsOfOp opId={selected} key={selected} />}
    </div>
  );
}

function AllKernels(): JSX.Element {
  const kernels = useUrlTable(ALL_KERNELS_TABLE, useQuery());
  return (
    <DataTable<KernelsRow>
      spec={ALL_KERNELS_TABLE}
      control={kernels}
      path="kernels/"
      caption={t("Kernels of all ops")}
      title={
        <h2>
          {t("Kernels")} <span class="table-subject">{t("of all ops")}</span>
        </h2>
      }
      onSelect={(kernel) => {
        if (kernel.op_id !== undefined) selectOp(kernel.op_id);
      }}
      onBack={() => focusRows(OP_ROWS)}
      bodyId={KERNEL_ROWS}
    />
  );
}

function KernelsOfOp({ opId }: { opId: string }): JSX.Element {
  const op = useScoped<OpsRow>(`ops/${encodeURIComponent(opId)}/`);
  const kernels = useUrlTable(OP_KERNELS_TABLE, useQuery());
  const direction = op.data?.direction ?? "";
  return (
    <DataTable<KernelsRow>
      spec={OP_KERNELS_TABLE}
      control={kernels}
      path={`ops/${encodeURIComponent(opId)}/kernels/`}
      caption={t("Kernels of {name}", { name: op.data?.op_name ?? opId })}
      title={
        <>
          <h2>{t("Kernels of")}</h2>
          <span class="subject-chip">
            <Name name={op.data?.op_name ?? opId} />
            {direction !== "" && (
              <span class="subject-note">
                <Direction value={direction} />
              </span>
            )}
            <button
              type="button"
              class="chip-close"
              aria-label={t("Show the kernels of all ops")}
              title={t("Show the kernels of all ops")}
              onClick={() => selectOp(null)}
            >
              <Icon name="close" size={12} />
            </button>
          </span>
        </>
      }
      onBack={() => focusRows(OP_ROWS)}
      whenEmpty={
        <Empty title={t("This op launched no kernels")}>{t("All its time was CPU time.")}</Empty>
      }
      bodyId={KERNEL_ROWS}
    />
  );
}
