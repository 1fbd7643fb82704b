/** How much of the time a GPU worked, the mean over all GPUs. */

import type { JSX } from "preact";
import type { GpuUtilization } from "../../api/types";
import { ChartMenu } from "../../charts/ChartMenu";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { useScope, useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { Loaded, Unknown } from "../../ui/states";
import { StackedBar } from "./StackedBar";
import { ViewLink } from "./TopOpsPanel";

export function GpuUtilizationPanel(): JSX.Element {
  const utilization = useScoped<GpuUtilization>("gpu-utilization/");
  const gpus = useScope().profile.system_config.gpu_count;
  return (
    <Panel
      title={t("GPU utilization")}
      info={EXPLANATIONS.gpuUtilization}
      span={4}
      actions={
        <>
          {gpus !== null && gpus > 1 && <ViewLink view="gpus" text={t("More…")} />}
          <ChartMenu figure="gpu-utilization" />
        </>
      }
    >
      <Loaded resource={utilization}>
        {(data) =>
          data.using_gpu_pct === null || data.idle_gpu_pct === null ? (
            <Unknown reason={data.unknown?.using_gpu_pct} />
          ) : (
            <>
              <p class="panel-lead">
                {gpus !== null && gpus > 1
                  ? t("Mean over {count} GPUs", { count: gpus })
                  : t("Share of the wall clock time")}
              </p>
              <StackedBar
                label={t("GPU utilization")}
                slices={[
                  { key: "gpu", label: t("Using GPU"), value: data.using_gpu_pct },
                  { key: "idle", label: t("Idle GPU"), value: data.idle_gpu_pct },
                ]}
              />
            </>
          )
        }
      </Loaded>
    </Panel>
  );
}
