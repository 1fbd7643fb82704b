/** Kernels by op: an iteration, its ops, and the kernels of one of them. Three linked tables. */

import type { OpsRow } from "../../api/types";
import { t } from "../../i18n";
import { useQuery } from "../../state/location";
import { useScope, useScoped } from "../../state/scope";
import { UrlTable } from "../../table/DataTable";
import { ITERATION_OP_KERNELS_TABLE } from "../../table/specs/kernels";
import { ITERATION_OPS_TABLE } from "../../table/specs/ops";
import { Name } from "../../ui/Name";
import { Empty } from "../../ui/states";
import { focusRows, focusRowsSoon, selectRow } from "../linking";
import { chosenIteration, ITERATION_ROWS, IterationPicker, NothingInIteration } from "./parts";

const OP_ROWS = "iteration-op-rows";
const LAUNCH_ROWS = "op-launch-rows";

/** Ops have the same ID in every iteration: the selected one stays selected in the next. */
function selectIteration(iteration: string): void {
  selectRow({ iteration }, [ITERATION_OPS_TABLE.id, ITERATION_OP_KERNELS_TABLE.id]);
}

function selectOp(op: string | null): void {
  selectRow({ op }, [ITERATION_OP_KERNELS_TABLE.id]);
}

export default function KernelsByOpView() {
  const query = useQuery();
  const iteration = chosenIteration(query, useScope().aggregation);
  const op = query.get("op") ?? null;
  const caption = t("Ops in iteration {iteration}", { iteration });
  return (
    <div class="view view-triple">
      <h1 class="visually-hidden">{t("Kernels by op")}</h1>
      <IterationPicker
        selected={iteration}
        onSelect={selectIteration}
        onDrill={(next) => {
          selectIteration(next);
          focusRowsSoon(OP_ROWS);
        }}
      />
      <UrlTable
        key={iteration}
        spec={ITERATION_OPS_TABLE}
        path={`iterations/${iteration}/ops/`}
        caption={caption}
        selected={op}
        onSelect={(row) => selectOp(row.op_id)}
        onDrill={(row) => {
          selectOp(row.op_id);
          focusRowsSoon(LAUNCH_ROWS);
        }}
        onBack={() => focusRows(ITERATION_ROWS)}
        whenEmpty={<NothingInIteration iteration={iteration} />}
        bodyId={OP_ROWS}
      />
      {op === null ? (
        <section class="data-table data-table-empty" aria-label={t("Kernels of an op")}>
          <Empty title={t("No op is selected")}>
            {t("Select an op above to see each of its kernels in this iteration.")}
          </Empty>
        </section>
      ) : (
        <Launches iteration={iteration} op={op} key={`${iteration} ${op}`} />
      )}
    </div>
  );
}

function Launches({ iteration, op }: { iteration: string; op: string }) {
  const path = encodeURIComponent(op);
  const found = useScoped<OpsRow>(`ops/${path}/`);
  const name = found.data?.op_name ?? op;
  return (
    <UrlTable
      spec={ITERATION_OP_KERNELS_TABLE}
      path={`iterations/${iteration}/ops/${path}/kernels/`}
      caption={t("Kernels of {name} in iteration {iteration}", { name, iteration })}
      title={
        <>
          <h2>{t("Kernels in iteration {iteration} of", { iteration })}</h2>
          <span class="subject-chip subject-plain">
            <Name name={name} />
          </span>
        </>
      }
      onBack={() => focusRows(OP_ROWS)}
      whenEmpty={
        <Empty title={t("This op launched no kernels in this iteration")}>
          {t("All its time was CPU time.")}
        </Empty>
      }
      bodyId={LAUNCH_ROWS}
    />
  );
}
