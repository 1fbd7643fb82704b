/** The roofline: what each op achieved under what the GPU can do, and where most is left to win. */

import type { JSX } from "preact";
import type { Efficiency, OpEfficiency } from "../../api/types";
import { ChartMenu } from "../../charts/ChartMenu";
import { FigureChart } from "../../charts/FigureChart";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { formatPct } from "../../lib/units";
import { useQuery } from "../../state/location";
import { useScoped } from "../../state/scope";
import { DataTable } from "../../table/DataTable";
import { EFFICIENCY_TABLE } from "../../table/specs/efficiency";
import { useUrlTable } from "../../table/useTableState";
import { Panel } from "../../ui/Panel";
import { ErrorNote, Skeleton, Unknown } from "../../ui/states";

const CHART_HEIGHT = 420;

export function RooflineView(): JSX.Element {
  const ops = useUrlTable(EFFICIENCY_TABLE, useQuery());
  return (
    <div class="view view-roofline">
      <h1 class="visually-hidden">{t("Roofline")}</h1>
      <Panel title={t("Efficiency of the run")} info={EXPLANATIONS.efficiency} span={12}>
        <Totals />
      </Panel>
      <Panel
        title={t("Roofline of the ops")}
        info={EXPLANATIONS.roofline}
        span={12}
        actions={<ChartMenu figure="roofline" />}
      >
        <FigureChart
          name="roofline"
          label={t(
            "Ops by operations per byte and TFLOP/s under the GPU's peaks; the table has the figures",
          )}
          height={CHART_HEIGHT}
        />
      </Panel>
      <DataTable<OpEfficiency>
        spec={EFFICIENCY_TABLE}
        control={ops}
        path="op-efficiency/"
        caption={t("Left to win")}
        title={<h2>{t("Left to win")}</h2>}
      />
    </div>
  );
}

function Totals(): JSX.Element {
  const found = useScoped<Efficiency>("efficiency/");
  if (found.error !== null) return <ErrorNote error={found.error} onRetry={found.reload} />;
  if (found.data === null) return <Skeleton lines={2} height={20} />;
  const { data } = found;
  const facts: readonly (readonly [string, string | null])[] = [
    [t("Model FLOPs utilisation"), percent(data.mfu_pct)],
    [t("TFLOP/s per GPU over wall time"), number(data.tflops_per_second_per_gpu)],
    [t("TFLOP/s over GPU time"), number(data.tflops_per_second)],
    [t("GB/s over GPU time"), number(data.gbytes_per_second)],
    [t("GPU time at the peaks"), percent(data.peak_pct)],
    [t("GPU time with known costs"), percent(data.known_pct)],
  ];
  return (
    <dl class="roofline-totals">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value ?? <Unknown />}</dd>
        </div>
      ))}
    </dl>
  );
}

function percent(value: number | null): string | null {
  return value === null ? null : `${formatPct(value)} %`;
}

function number(value: number | null): string | null {
  if (value === null) return null;
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
