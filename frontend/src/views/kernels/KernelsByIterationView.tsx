/** Kernels by iteration: an iteration, and below it every kernel that was launched in it. */

import type { JSX } from "preact";
import type { IterationKernelsRow } from "../../api/types";
import { t } from "../../i18n";
import { useQuery } from "../../state/location";
import { useScope } from "../../state/scope";
import { DataTable } from "../../table/DataTable";
import { ITERATION_KERNELS_TABLE } from "../../table/specs/kernels";
import { useUrlTable } from "../../table/useTableState";
import { focusRows, focusRowsSoon, selectRow } from "../linking";
import { chosenIteration, ITERATION_ROWS, IterationPicker, NothingInIteration } from "./parts";

const LAUNCH_ROWS = "launch-rows";

function select(iteration: string): void {
  selectRow({ iteration }, [ITERATION_KERNELS_TABLE.id]);
}

export function KernelsByIterationView(): JSX.Element {
  const query = useQuery();
  const iteration = chosenIteration(query, useScope().aggregation);
  const launches = useUrlTable(ITERATION_KERNELS_TABLE, query);
  const caption = t("Kernels in iteration {iteration}", { iteration });
  return (
    <div class="view view-split">
      <h1 class="visually-hidden">{t("Kernels by iteration")}</h1>
      <IterationPicker
        query={query}
        selected={iteration}
        onSelect={select}
        onDrill={(next) => {
          select(next);
          focusRowsSoon(LAUNCH_ROWS);
        }}
      />
      <DataTable<IterationKernelsRow>
        key={iteration}
        spec={ITERATION_KERNELS_TABLE}
        control={launches}
        path={`iterations/${iteration}/kernels/`}
        caption={caption}
        title={<h2>{caption}</h2>}
        onBack={() => focusRows(ITERATION_ROWS)}
        whenEmpty={<NothingInIteration iteration={iteration} />}
        bodyId={LAUNCH_ROWS}
      />
    </div>
  );
}
