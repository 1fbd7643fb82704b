/** Utilization of the GPUs: a table, and with more than one GPU also a bar for each. */

import { ChartMenu } from "../../charts/ChartMenu";
import { FigureChart } from "../../charts/FigureChart";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { useScope } from "../../state/scope";
import { UrlTable } from "../../table/DataTable";
import { GPUS_TABLE } from "../../table/specs/ranks";
import { Panel } from "../../ui/Panel";

/** While it loads. Unit: px. */
const CHART_HEIGHT = 80;

export default function GpusView() {
  const count = useScope().profile.system_config.gpu_count ?? 1;
  return (
    <div class="view view-gpus">
      <h1 class="visually-hidden">{t("GPUs")}</h1>
      {count > 1 && (
        <Panel
          title={t("GPU utilization across all devices")}
          info={EXPLANATIONS.gpuUtilization}
          span={12}
          actions={<ChartMenu figure="gpus" />}
        >
          <FigureChart
            name="gpus"
            label={t("Bar chart of the utilization of {count} GPUs; the table has the values", {
              count,
            })}
            height={CHART_HEIGHT}
          />
        </Panel>
      )}
      <UrlTable spec={GPUS_TABLE} path="gpus/" caption={t("GPUs")} />
    </div>
  );
}
