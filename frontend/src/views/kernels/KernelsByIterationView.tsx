/** Kernels by iteration: an iteration, and below it every kernel that was launched in it. */

import { t } from "../../i18n";
import { useQuery } from "../../state/location";
import { useScope } from "../../state/scope";
import { UrlTable } from "../../table/DataTable";
import { ITERATION_KERNELS_TABLE } from "../../table/specs/kernels";
import { focusRows, focusRowsSoon, selectRow } from "../linking";
import { chosenIteration, ITERATION_ROWS, IterationPicker, NothingInIteration } from "./parts";

const LAUNCH_ROWS = "launch-rows";

function select(iteration: string): void {
  selectRow({ iteration }, [ITERATION_KERNELS_TABLE.id]);
}

export default function KernelsByIterationView() {
  const query = useQuery();
  const iteration = chosenIteration(query, useScope().aggregation);
  const caption = t("Kernels in iteration {iteration}", { iteration });
  return (
    <div class="view view-split">
      <h1 class="visually-hidden">{t("Kernels by iteration")}</h1>
      <IterationPicker
        selected={iteration}
        onSelect={select}
        onDrill={(next) => {
          select(next);
          focusRowsSoon(LAUNCH_ROWS);
        }}
      />
      <UrlTable
        key={iteration}
        spec={ITERATION_KERNELS_TABLE}
        path={`iterations/${iteration}/kernels/`}
        caption={caption}
        onBack={() => focusRows(ITERATION_ROWS)}
        whenEmpty={<NothingInIteration iteration={iteration} />}
        bodyId={LAUNCH_ROWS}
      />
    </div>
  );
}
