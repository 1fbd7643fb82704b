/** Every iteration as a bar; the Iterations view has the controls. */

import type { JSX } from "preact";
import { isReport } from "../../api/source";
import { ChartMenu } from "../../charts/ChartMenu";
import { IterationChart } from "../../charts/IterationChart";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { useScope } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { ViewLink } from "./ViewLink";

export function IterationSummaryPanel(): JSX.Element {
  const { aggregation } = useScope();
  return (
    <Panel
      title={t("Iteration summary")}
      info={EXPLANATIONS.iterationSummary}
      span={12}
      class="panel-flush"
      actions={
        <>
          {!isReport() && <ViewLink view="compare">{t("Compare with …")}</ViewLink>}
          <ViewLink view="iterations">{t("Iterations view")}</ViewLink>
          <ChartMenu figure="iteration-summary" />
        </>
      }
    >
      <IterationChart
        height={248}
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
