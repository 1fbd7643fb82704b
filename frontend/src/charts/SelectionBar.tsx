/** What can be done with the iterations that were dragged over in the chart. */

import { isReport } from "../api/source";
import { t } from "../i18n";
import { useScope } from "../state/scope";
import { AggregateButton } from "../ui/AggregateButton";
import { Button, IconButton } from "../ui/Button";
import type { IndexRange } from "./iterationFigure";

export interface SelectionBarProps {
  readonly range: IndexRange;
  readonly onClear: () => void;
  readonly onZoom?: (zoom: IndexRange) => void;
}

export function SelectionBar({ range, onClear, onZoom }: SelectionBarProps) {
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
        <AggregateButton
          request={{ iter_start: first, iter_stop: last }}
          isPrimary
          onStarted={onClear}
        >
          {first === last
            ? t("Aggregate iteration {first}", { first })
            : t("Aggregate iterations {first}–{last}", { first, last })}
        </AggregateButton>
      )}
      {onZoom !== undefined && <Button onClick={() => onZoom(range)}>{t("Zoom in")}</Button>}
      <IconButton icon="close" label={t("Clear the selection")} onClick={onClear} />
    </div>
  );
}
