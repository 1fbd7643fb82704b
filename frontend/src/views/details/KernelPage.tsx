/** One kernel, all ops together: its times over the iterations, durations, sizes, ops and advice. */

import type { KernelLaunches } from "../../api/types";
import { t } from "../../i18n";
import { sumCount, sumUnit, useScale } from "../../lib/perStep";
import { formatInt, formatPct } from "../../lib/units";
import { UrlTable } from "../../table/DataTable";
import { OPS_OF_KERNEL_TABLE } from "../../table/specs/kernels";
import { RIGHT, SmallTable } from "../../ui/ColumnsTable";
import { Flag } from "../../ui/Name";
import { kernelPage, PageAnchor } from "../../ui/PageLink";
import { Panel } from "../../ui/Panel";
import { Empty, type Fact, Facts } from "../../ui/states";
import {
  AdviceAbout,
  NotKnown,
  OnePage,
  type OneProps,
  PageGrid,
  PageHead,
  showIteration,
  sumTime,
  time,
  timeIn,
  unitOf,
} from "./parts";
import { Histogram, Trend } from "./Trend";

const LAUNCHES = [t("launch"), t("launches")] as const;

export default function KernelPage() {
  return (
    <OnePage<KernelLaunches>
      parameter="kernel"
      path={(name) => `kernels/${encodeURIComponent(name)}/launches/`}
      none={
        <Empty title={t("No kernel is selected")}>
          {t("Open the page of a kernel from any table.")}
        </Empty>
      }
      page={OneKernel}
    />
  );
}

function OneKernel({ name, data: kernel }: OneProps<KernelLaunches>) {
  const column = kernel.kernel_long_name === null ? "kernel_name" : "kernel_long_name";
  return (
    <PageGrid>
      <PageHead kind={t("Kernel")} name={kernel.readable_name ?? kernel.kernel_name} full={name} />
      <Panel title={t("Totals")} span={12}>
        <Figures kernel={kernel} />
        <FullNames kernel={kernel} />
      </Panel>
      <Panel title={t("Over the iterations")} span={8}>
        {kernel.iterations === null ? (
          <NotKnown reason={kernel.unknown.iterations} />
        ) : (
          <Trend
            index={kernel.iterations.map((row) => row.iteration_index)}
            values={kernel.iterations.map((row) => row.gpu_time_ns)}
            onSelect={(iteration) => showIteration(iteration)}
          />
        )}
      </Panel>
      <Panel title={t("Durations of a launch")} span={4}>
        {kernel.gpu_time_bins === null ? (
          <NotKnown reason={kernel.unknown.gpu_time_bins} />
        ) : (
          <Histogram bins={kernel.gpu_time_bins} noun={LAUNCHES} />
        )}
      </Panel>
      <Panel title={t("Launch sizes")} span={8}>
        <Sizes kernel={kernel} />
      </Panel>
      <AdviceAbout subject={{ kernelName: kernel.kernel_name }} />
      <div class="span-12 one-table">
        <UrlTable
          spec={OPS_OF_KERNEL_TABLE}
          path="kernels/"
          params={{ [column]: name }}
          caption={t("Ops that launched it")}
        />
      </div>
    </PageGrid>
  );
}

function Figures({ kernel }: { kernel: KernelLaunches }) {
  const share = kernel.share_pct === null ? null : `${formatPct(kernel.share_pct)} %`;
  const scale = useScale();
  const flag = kernel.uses_tc === null ? null : <Flag value={kernel.uses_tc} />;
  const facts: readonly Fact[] = [
    [t("GPU time"), sumTime(kernel.gpu_time_ns, scale)],
    [t("Share of all kernels"), share],
    [t("Launches"), sumCount(kernel.num_calls, scale)],
    [t("Mean duration"), time(kernel.gpu_time_avg_ns)],
    [t("Shortest"), time(kernel.gpu_time_min_ns)],
    [t("Longest"), time(kernel.gpu_time_max_ns)],
    [t("Ops that launched it"), formatInt(kernel.num_ops)],
    [t("Using TC"), flag, t("Unknown from its name, or different from launch to launch.")],
  ];
  return <Facts facts={facts} />;
}

/** A short name is that of several kernels. */
function FullNames({ kernel }: { kernel: KernelLaunches }) {
  if (kernel.kernel_long_name !== null || kernel.long_names.length === 0) return null;
  return (
    <>
      <p>{t("Kernels with this short name:")}</p>
      <ul class="full-names">
        {kernel.long_names.map((name) => (
          <li key={name}>
            <PageAnchor to={kernelPage(name)} class="panel-link">
              {name}
            </PageAnchor>
          </li>
        ))}
      </ul>
    </>
  );
}

function Sizes({ kernel }: { kernel: KernelLaunches }) {
  if (kernel.sizes === null) return <NotKnown reason={kernel.unknown.sizes} />;
  const left = (kernel.num_sizes ?? 0) - kernel.sizes.length;
  const scale = useScale();
  const unit = unitOf(kernel.sizes.map((row) => row.gpu_time_ns / scale.steps));
  return (
    <SmallTable
      label={t("Launch sizes")}
      rows={kernel.sizes}
      rowKey={(row) => `${row.grid} ${row.block}`}
      columns={[
        [t("Grid"), (row) => row.grid],
        [t("Block"), (row) => row.block],
        [t("Launches"), (row) => sumCount(row.num_calls, scale), RIGHT],
        [
          `${t("GPU time")} (${sumUnit(unit, scale)})`,
          (row) => timeIn(row.gpu_time_ns / scale.steps, unit),
          RIGHT,
        ],
      ]}
      more={left > 0 ? t("{count} further sizes with less GPU time", { count: left }) : null}
    />
  );
}
