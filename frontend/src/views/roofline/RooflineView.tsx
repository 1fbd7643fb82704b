/** The roofline: the rates that ops achieved under the peaks of the GPU, and where time could be saved. */

import type { Efficiency } from "../../api/types";
import { ChartMenu } from "../../charts/ChartMenu";
import { FigureChart } from "../../charts/FigureChart";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { formatInt, formatPct } from "../../lib/units";
import { navigate, useQuery } from "../../state/location";
import { useScoped } from "../../state/scope";
import { UrlTable } from "../../table/DataTable";
import type { TableSpec } from "../../table/spec";
import {
  EFFICIENCY_TABLE,
  GROUP_EFFICIENCY_TABLE,
  ITERATION_EFFICIENCY_TABLE,
  TYPE_EFFICIENCY_TABLE,
} from "../../table/specs/efficiency";
import { Panel } from "../../ui/Panel";
import { Segmented } from "../../ui/Segmented";
import { ErrorNote, Facts, Skeleton } from "../../ui/states";

const CHART_HEIGHT = 420;

export default function RooflineView() {
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
            "Ops by operations per byte and TFLOP/s under the GPU's peaks; the table has the values",
          )}
          height={CHART_HEIGHT}
        />
        <CostsNote />
      </Panel>
      <LeftToWin />
    </div>
  );
}

/** With costs of less than this share of the GPU time the chart is as good as empty. */
const FEW_COSTS_PCT = 1;

/** What would fill an empty chart. */
function CostsNote() {
  const { data } = useScoped<Efficiency>("efficiency/");
  if (data === null || (data.known_pct ?? 0) >= FEW_COSTS_PCT) return null;
  return (
    <p class="panel-note">
      {t(
        "Operations and bytes follow from the shapes of the ops, which this profile does not have. Capture the program with dlprof, or record shapes in the trace of torch.profiler (record_shapes=True).",
      )}
    </p>
  );
}

const SUMS = {
  types: () => (
    <SumTable key="types" by="types" spec={TYPE_EFFICIENCY_TABLE} path="op-type-efficiency/" />
  ),
  groups: () => (
    <SumTable key="groups" by="groups" spec={GROUP_EFFICIENCY_TABLE} path="group-efficiency/" />
  ),
  iterations: () => (
    <SumTable
      key="iterations"
      by="iterations"
      spec={ITERATION_EFFICIENCY_TABLE}
      path="iteration-efficiency/"
    />
  ),
} as const;

type Sum = keyof typeof SUMS;

function isSum(value: string | undefined): value is Sum {
  return value !== undefined && value in SUMS;
}

/** The same figures by op, or of many ops together. */
function LeftToWin() {
  const by = useQuery().get("by");
  return isSum(by) ? SUMS[by]() : <OpTable />;
}

function OpTable() {
  return (
    <UrlTable
      spec={EFFICIENCY_TABLE}
      path="op-efficiency/"
      caption={t("Time lost vs. roofline")}
      title={<TableTitle by={null} />}
    />
  );
}

function SumTable<Row>(props: { by: Sum; spec: TableSpec<Row>; path: string }) {
  const { by, spec, path } = props;
  return (
    <UrlTable
      spec={spec}
      path={path}
      caption={t("Time lost vs. roofline")}
      title={<TableTitle by={by} />}
    />
  );
}

function TableTitle({ by }: { by: Sum | null }) {
  const choices = [
    [null, t("Ops")],
    ["types", t("Op types")],
    ["groups", t("Groups")],
    ["iterations", t("Iterations")],
  ] as const;
  return (
    <>
      <h2>{t("Time lost vs. roofline")}</h2>
      <Segmented
        label={t("Rows")}
        choices={choices}
        value={by}
        onChange={(value) => navigate({ by: value })}
      />
    </>
  );
}

/** A share, or the bound that is known of it. */
function bounded(value: number | null, least: number | null): string | null {
  if (value !== null || least === null) return percent(value);
  return t("at least {share} %", { share: formatPct(least) });
}

function Totals() {
  const found = useScoped<Efficiency>("efficiency/");
  if (found.error !== null) return <ErrorNote error={found.error} onRetry={found.reload} />;
  if (found.data === null) return <Skeleton lines={2} height={20} />;
  const { data } = found;
  // Mostly the same as of all steps: then one figure says both.
  const isMedianOther =
    data.median_step_mfu_pct !== null &&
    formatPct(data.median_step_mfu_pct) !== formatPct(data.mfu_pct ?? -1);
  const isHfuOther =
    data.hfu_pct !== null && formatPct(data.hfu_pct) !== formatPct(data.mfu_pct ?? -1);
  const mfu = bounded(data.mfu_pct, data.mfu_at_least_pct);
  const stepMfu = bounded(data.median_step_mfu_pct, data.median_step_mfu_at_least_pct);
  const facts: readonly (readonly [string, string | null, keyof Efficiency])[] = [
    [t("Model FLOPs utilization"), mfu, "mfu_pct"],
    ...(isMedianOther ? [[t("MFU, median step"), stepMfu, "median_step_mfu_pct"] as const] : []),
    ...(isHfuOther
      ? [[t("Hardware FLOPs utilization"), percent(data.hfu_pct), "hfu_pct"] as const]
      : []),
    [
      t("TFLOP/s per GPU over wall time"),
      number(data.tflops_per_second_per_gpu),
      "tflops_per_second_per_gpu",
    ],
    [t("TFLOP/s over GPU time"), number(data.tflops_per_second), "tflops_per_second"],
    [t("GB/s over GPU time"), number(data.gbytes_per_second), "gbytes_per_second"],
    [t("Ideal share of GPU time"), percent(data.peak_pct), "peak_pct"],
    [t("GPU time with known costs"), percent(data.known_pct), "known_pct"],
  ];
  return <Facts facts={facts.map(([name, value, key]) => [name, value, data.unknown[key]])} />;
}

function percent(value: number | null): string | null {
  return value === null ? null : `${formatPct(value)} %`;
}

function number(value: number | null): string | null {
  if (value === null) return null;
  return value >= 100 ? formatInt(value) : value.toPrecision(3);
}
