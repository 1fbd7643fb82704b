/** Ops and kernels: two linked tables. A row of the first fills the second, and the address. */

import type { JSX } from "preact";
import { useCallback } from "preact/hooks";
import type { Kernel, Op } from "../../api/types";
import { navigate, useQuery } from "../../state/location";
import { useScope, useScoped } from "../../state/scope";
import { DataTable } from "../../table/DataTable";
import { ALL_KERNELS_TABLE, OP_KERNELS_TABLE } from "../../table/specs/kernels";
import { OPS_TABLE } from "../../table/specs/ops";
import { useUrlTable } from "../../table/useTableState";
import { Icon } from "../../ui/icons";
import { Name } from "../../ui/Name";
import { Empty } from "../../ui/states";

const KERNEL_ROWS = "kernel-rows";
const OP_ROWS = "op-rows";

/** Selecting another op starts its kernels on their first page, without the filters of the last. */
function selectOp(opId: string | null): void {
  const patch: Record<string, string | null> = { op: opId };
  for (const key of new URLSearchParams(window.location.search).keys()) {
    if (key.startsWith("kernels.")) patch[key] = null;
  }
  navigate(patch);
}

/** Moves the focus to the row that Tab would reach in a table, as soon as it has rows. */
function focusRows(bodyId: string, attempts = 20): void {
  const row = document.querySelector<HTMLElement>(`#${bodyId} tr[tabindex="0"]`);
  if (row !== null) row.focus();
  else if (attempts > 0) window.setTimeout(() => focusRows(bodyId, attempts - 1), 50);
}

export function OpsView(): JSX.Element {
  const query = useQuery();
  const { profile } = useScope();
  const selected = query.get("op") ?? null;
  const ops = useUrlTable(OPS_TABLE, query);
  const drill = useCallback((op: Op) => {
    selectOp(op.op_id);
    window.setTimeout(() => focusRows(KERNEL_ROWS), 0);
  }, []);
  return (
    <div class="view view-split">
      <h1 class="visually-hidden">Ops and kernels</h1>
      <DataTable
        spec={OPS_TABLE}
        control={ops}
        path="ops/"
        caption="Ops"
        title={<h2>Ops</h2>}
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

function NoOps({ reason }: { reason: string | null }): JSX.Element {
  return (
    <Empty title="No ops in this profile">
      {reason ??
        "It has no ranges that name ops. Run the training inside of torch.autograd.profiler.emit_nvtx() to see them."}
    </Empty>
  );
}

function AllKernels(): JSX.Element {
  const kernels = useUrlTable(ALL_KERNELS_TABLE, useQuery());
  return (
    <DataTable<Kernel>
      spec={ALL_KERNELS_TABLE}
      control={kernels}
      path="kernels/"
      caption="Kernels of all ops"
      title={
        <h2>
          Kernels <span class="table-subject">of all ops</span>
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
  const op = useScoped<Op>(`ops/${encodeURIComponent(opId)}/`);
  const kernels = useUrlTable(OP_KERNELS_TABLE, useQuery());
  const direction = op.data?.direction ?? "";
  return (
    <DataTable<Kernel>
      spec={OP_KERNELS_TABLE}
      control={kernels}
      path={`ops/${encodeURIComponent(opId)}/kernels/`}
      caption={`Kernels of ${op.data?.op_name ?? opId}`}
      title={
        <>
          <h2>Kernels of</h2>
          <span class="subject-chip">
            <Name name={op.data?.op_name ?? opId} />
            {direction !== "" && <span class="subject-note">{direction}</span>}
            <button
              type="button"
              class="chip-close"
              aria-label="Show the kernels of all ops"
              title="Show the kernels of all ops"
              onClick={() => selectOp(null)}
            >
              <Icon name="close" size={12} />
            </button>
          </span>
        </>
      }
      onBack={() => focusRows(OP_ROWS)}
      whenEmpty={<Empty title="This op launched no kernels">Its time was spent on the CPU.</Empty>}
      bodyId={KERNEL_ROWS}
    />
  );
}
