/** What can be done with the iterations that were dragged over in the chart. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, toApiError } from "../api/client";
import { isReport } from "../api/source";
import { t } from "../i18n";
import { useJobControl } from "../state/jobContext";
import { isActive } from "../state/jobs";
import { useScope } from "../state/scope";
import { IconButton } from "../ui/IconButton";
import { ErrorNote } from "../ui/states";
import type { IndexRange } from "./iterationFigure";

export interface SelectionBarProps {
  readonly range: IndexRange;
  readonly onClear: () => void;
  readonly onZoom?: (zoom: IndexRange) => void;
}

export function SelectionBar({ range, onClear, onZoom }: SelectionBarProps): JSX.Element {
  const { profile } = useScope();
  const [first, last] = range;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset draws a frame of its own
    <div
      class="selection-bar"
      role="group"
      aria-label={t("Iterations {first}–{last} selected", { first, last })}
    >
      {!isReport() && profile.can_reaggregate && (
        <AggregateButton range={range} onStarted={onClear} />
      )}
      {onZoom !== undefined && (
        <button type="button" class="button" onClick={() => onZoom(range)}>
          {t("Zoom in")}
        </button>
      )}
      <IconButton icon="close" label={t("Clear the selection")} onClick={onClear} />
    </div>
  );
}

function AggregateButton(props: { range: IndexRange; onStarted: () => void }): JSX.Element {
  const { aggregation } = useScope();
  const jobs = useJobControl();
  const [error, setError] = useState<ApiError | null>(null);
  const [first, last] = props.range;
  const isBusy = jobs.job !== null && jobs.isOwn && isActive(jobs.job);
  const keyNode = aggregation.key_node ?? "";
  const start = () => {
    jobs
      .start({
        iter_start: first,
        iter_stop: last,
        ...(keyNode === "" ? {} : { key_node: keyNode }),
      })
      .then(props.onStarted)
      .catch((reason: unknown) => setError(toApiError(reason)));
  };
  return (
    <>
      <button type="button" class="button button-primary" disabled={isBusy} onClick={start}>
        {first === last
          ? t("Aggregate iteration {first}", { first })
          : t("Aggregate iterations {first}–{last}", { first, last })}
      </button>
      {error !== null && <ErrorNote error={error} />}
    </>
  );
}
