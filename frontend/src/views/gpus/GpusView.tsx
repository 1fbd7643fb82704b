/** Utilization of the GPUs: a table, and with more than one GPU also a bar for each. */

import type { JSX } from "preact";
import type { GpusRow } from "../../api/types";
import { ChartMenu } from "../../charts/ChartMenu";
import { FigureChart } from "../../charts/FigureChart";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { useQuery } from "../../state/location";
import { useScope } from "../../state/scope";
import { DataTable } from "../../table/DataTable";
import { GPUS_TABLE } from "../../table/specs/ranks";
import { useUrlTable } from "../../table/useTableState";
import { Panel } from "../../ui/Panel";

/** While it loads. Unit: px. */
const CHART_HEIGHT = 80;

export function GpusView(): JSX.Element {
  const table = useUrlTable(GPUS_TABLE, useQuery());
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
      <DataTable<GpusRow>
        spec={GPUS_TABLE}
        control={table}
        path="gpus/"
        caption={t("GPUs")}
        title={<h2>{t("GPUs")}</h2>}
      />
    </div>
  );
}
