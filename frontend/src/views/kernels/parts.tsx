/** What Kernels by iteration and Kernels by op have in common: the table of iterations. */

import type { IterationsRow } from "../../api/types";
import { t } from "../../i18n";
import type { Query } from "../../state/query";
import { type Scope, useScope } from "../../state/scope";
import { UrlTable } from "../../table/DataTable";
import { PICK_ITERATION_TABLE } from "../../table/specs/iterations";
import { Empty } from "../../ui/states";

export const ITERATION_ROWS = "iteration-rows";

const ONLY_AGGREGATED = { is_profiled: "1" } as const;

/**
 * The iteration that the address names; without one, the first that is aggregated.
 *
 * Interval 0 is the start of the program where a key node was found: seldom what is looked for.
 */
export function chosenIteration(query: Query, aggregation: Scope["aggregation"]): string {
  const named = query.get("iteration");
  if (named !== undefined && /^\d{1,9}$/.test(named)) return named;
  const { iter_start: start, iter_stop: stop, key_node: keyNode } = aggregation;
  const isStartUp = start === 0 && (stop ?? 0) > 0 && (keyNode ?? "") !== "";
  return String(isStartUp ? 1 : (start ?? 0));
}

export function IterationPicker(props: {
  selected: string;
  onSelect: (iteration: string) => void;
  onDrill: (iteration: string) => void;
}) {
  const name = (row: IterationsRow) => String(row.iteration_index);
  return (
    <UrlTable
      spec={PICK_ITERATION_TABLE}
      path="iterations/"
      params={ONLY_AGGREGATED}
      caption={t("Aggregated iterations")}
      title={<h2>{t("Iterations")}</h2>}
      selected={props.selected}
      onSelect={(row) => props.onSelect(name(row))}
      onDrill={(row) => props.onDrill(name(row))}
      bodyId={ITERATION_ROWS}
    />
  );
}

/** An iteration without rows: outside of the aggregation, or nothing was launched in it. */
export function NothingInIteration({ iteration }: { iteration: string }) {
  const { iter_start: start, iter_stop: stop } = useScope().aggregation;
  const index = Number(iteration);
  const isOutside = start !== null && stop !== null && (index < start || index > stop);
  if (isOutside) {
    return (
      <Empty title={t("Iteration {iteration} is not aggregated", { iteration })}>
        {t(
          "Only the kernels of aggregated iterations are shown here. Use the Iterations view to aggregate others.",
        )}
      </Empty>
    );
  }
  return <Empty title={t("No kernels were launched in it")} />;
}
