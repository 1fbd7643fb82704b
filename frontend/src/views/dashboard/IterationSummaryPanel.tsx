/** Every iteration as a bar; the Iterations view has the controls. */

import { ChartMenu } from "../../charts/ChartMenu";
import { IterationChart } from "../../charts/IterationChart";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { useScope } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { ViewLink } from "./ViewLink";

/** Low enough to begin on the first screen. */
const HEIGHT = 176;

export function IterationSummaryPanel() {
  const { aggregation } = useScope();
  return (
    <Panel
      title={t("Iteration summary")}
      info={EXPLANATIONS.iterationSummary}
      span={12}
      class="panel-flush"
      actions={
        <>
          <ViewLink view="iterations">{t("Iterations view")}</ViewLink>
          <ChartMenu figure="iteration-summary" />
        </>
      }
    >
      <IterationChart
        height={HEIGHT}
        arePartsKnown
        range="all"
        zoom={null}
        bounds={
          aggregation.iter_start === null || aggregation.iter_stop === null
            ? null
            : [aggregation.iter_start, aggregation.iter_stop]
        }
      />
    </Panel>
  );
}
