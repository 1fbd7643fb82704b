/** One op: its times over the iterations, kernels, shapes, source, roofline, partners and advice. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ListPage } from "../../api/lists";
import { isReport } from "../../api/source";
import type {
  OpCalls,
  OpEfficiencyRow,
  OpKernelsRow,
  OpRow,
  OpsRow,
  OpUnitsRow,
  PeakRatesRow,
} from "../../api/types";
import { t } from "../../i18n";
import { sumCount, sumText, sumUnit, useScale } from "../../lib/perStep";
import { formatInt, formatPct } from "../../lib/units";
import { currentQuery, useQuery } from "../../state/location";
import { patchForView } from "../../state/query";
import { useScope, useScoped } from "../../state/scope";
import { UrlTable } from "../../table/DataTable";
import { OP_KERNELS_TABLE } from "../../table/specs/kernels";
import { StackTrace } from "../../table/specs/ops";
import { IconButton } from "../../ui/Button";
import { RIGHT, SmallTable } from "../../ui/ColumnsTable";
import { Direction, Flag } from "../../ui/Name";
import { opPage, PageAnchor, timelineAt } from "../../ui/PageLink";
import { Panel } from "../../ui/Panel";
import { Segmented } from "../../ui/Segmented";
import { CopyButton, Empty, type Fact, Facts, Loaded, Skeleton, Unknown } from "../../ui/states";
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
import { RooflinePoint } from "./RooflinePoint";
import { Histogram, Trend } from "./Trend";

/** Of more, the copies and sets are not said. */
const MOST_KERNELS = 100;
const CALLS = [t("call"), t("calls")] as const;

function path(opId: string, part = ""): string {
  return `ops/${encodeURIComponent(opId)}/${part}`;
}

export default function OpPage() {
  return (
    <OnePage<OpRow>
      parameter="op"
      path={(opId) => path(opId)}
      none={
        <Empty title={t("No op is selected")}>{t("Open the page of an op from any table.")}</Empty>
      }
      page={OneOp}
    />
  );
}

function OneOp({ name: opId, data: op }: OneProps<OpRow>) {
  const name = op.op_name ?? opId;
  return (
    <PageGrid>
      <PageHead kind={t("Op")} name={name} full={name}>
        {(op.direction ?? "") !== "" && <Direction value={op.direction ?? ""} />}
        {[op.op_type, op.data_type].map(
          (text) =>
            text !== null &&
            text !== "" && (
              <span key={text} class="tag">
                {text}
              </span>
            ),
        )}
        <code>{opId}</code>
        <ListLink opId={opId} />
      </PageHead>
      <Panel title={t("Totals")} span={12}>
        <Figures op={op} />
        <Partners op={op} />
      </Panel>
      <Calls opId={opId} isOnGpu={(op.gpu_time_ns ?? 0) > 0} />
      <Panel title={t("Roofline")} span={4}>
        <Efficiency opId={opId} />
      </Panel>
      <AdviceAbout subject={{ opId }} />
      <Panel title={t("Source")} span={4}>
        <Source op={op} />
      </Panel>
      <div class="span-12 one-table">
        <UrlTable
          spec={OP_KERNELS_TABLE}
          path={path(opId, "kernels/")}
          caption={t("Kernels of {name}", { name })}
          title={<h2>{t("Kernels")}</h2>}
          whenEmpty={<Empty title={t("This op launched no kernels")} />}
        />
        <CopiesAndSets op={op} />
      </div>
    </PageGrid>
  );
}

/** One op beside the table of all: its figures, kernels, trend, roofline and advice. */
export function OpPane(props: {
  opId: string;
  onClose: () => void;
  /** The table of its kernels. */
  children: ComponentChildren;
}) {
  const { opId } = props;
  const found = useScoped<OpRow>(path(opId));
  const name = found.data?.op_name ?? opId;
  return (
    <aside class="op-pane" aria-label={t("Selected op")}>
      <header class="op-pane-head">
        <h2>
          {name} <Direction value={found.data?.direction ?? ""} />
        </h2>
        <IconButton icon="close" label={t("Show the kernels of all ops")} onClick={props.onClose} />
      </header>
      <p class="op-pane-links">
        {!isReport() && (
          <PageAnchor to={opPage(opId)} class="panel-link">
            {t("Page of this op")}
          </PageAnchor>
        )}
        <CopyButton label={t("Copy the name")} text={() => name} />
      </p>
      <Loaded resource={found}>{(op) => <Figures op={op} />}</Loaded>
      {props.children}
      {!isReport() && <PaneDetails opId={opId} />}
    </aside>
  );
}

function PaneDetails({ opId }: { opId: string }) {
  const calls = useScoped<OpCalls>(path(opId, "calls/"));
  return (
    <>
      <Panel title={t("Over the iterations")} span={12}>
        <Loaded resource={calls}>{(data) => <OverIterations calls={data} clock="gpu" />}</Loaded>
      </Panel>
      <Panel title={t("Roofline")} span={12}>
        <Efficiency opId={opId} />
      </Panel>
      <AdviceAbout subject={{ opId }} />
    </>
  );
}

function ListLink({ opId }: { opId: string }) {
  const to = { ...patchForView(currentQuery(), "ops"), op: opId };
  return (
    <PageAnchor to={to} class="panel-link">
      {t("In the list of ops")}
    </PageAnchor>
  );
}

function Figures({ op }: { op: OpRow }) {
  const { info } = useScope().profile;
  const reason = (key: keyof OpRow) => op.unknown[key] ?? op.unknown["*"];
  const flag = (value: boolean | null) =>
    value === null || (info.no_ops_reason ?? "") !== "" ? null : <Flag value={value} />;
  const share = op.share_pct === null ? null : `${formatPct(op.share_pct)} %`;
  const scale = useScale();
  const sum = (ns: number | null) => (ns === null ? null : sumTime(ns, scale));
  const count = (value: number | null) => (value === null ? null : sumCount(value, scale));
  const facts: readonly Fact[] = [
    [t("GPU time"), sum(op.gpu_time_ns), reason("gpu_time_ns")],
    [t("Share of all ops"), share, reason("share_pct")],
    [t("GPU time of a call"), time(op.gpu_time_avg_ns), reason("gpu_time_avg_ns")],
    [t("CPU time"), sum(op.cpu_time_ns), reason("cpu_time_ns")],
    [t("CPU time outside CUDA calls"), sum(op.cpu_overhead_ns), reason("cpu_overhead_ns")],
    [t("GPU idle between its work"), sum(op.gpu_idle_ns), reason("gpu_idle_ns")],
    [t("Calls"), count(op.num_calls), reason("num_calls")],
    [t("Kernel launches"), count(op.kernel_calls), reason("kernel_calls")],
    [t("TC eligible"), flag(op.tc_eligible), info.no_ops_reason ?? reason("tc_eligible")],
    [t("Using TC"), op.using_tc === null ? null : <Flag value={op.using_tc} />, reason("using_tc")],
  ];
  return <Facts facts={facts} />;
}

/** The same op of the model in the other directions. */
function Partners({ op }: { op: OpRow }) {
  const name = op.op_name;
  const url = { op_name: name, ordering: "op_id", page_size: 10 };
  const found = useScoped<ListPage<OpsRow>>("ops/", url);
  if (name === null || (op.direction ?? "") === "") return null;
  const others = (found.data?.results ?? []).filter((row) => row.op_id !== op.op_id);
  const titles: Readonly<Record<string, string>> = {
    fprop: t("Forward pass of it"),
    bprop: t("Backward pass of it"),
    recompute: t("Recomputation of it"),
  };
  return (
    <p class="partners">
      {found.data !== null && others.length === 0
        ? t("No op of this name runs in another direction.")
        : others.map((other) => (
            <PageAnchor key={other.op_id} to={opPage(other.op_id)} class="panel-link">
              {titles[other.direction ?? ""] ?? other.direction}: {other.op_id}
            </PageAnchor>
          ))}
    </p>
  );
}

/** Leads to the longest call in the timeline, which a report in one file has not. */
function LongestCall({ calls }: { calls: OpCalls }) {
  if (calls.longest_start_ns === null || calls.longest_time_ns === null || isReport()) return null;
  return (
    <PageAnchor to={timelineAt(calls.longest_start_ns, calls.longest_time_ns)} class="panel-link">
      {t("Longest in the timeline")}
    </PageAnchor>
  );
}

type Clock = "gpu" | "cpu";

function Calls({ opId, isOnGpu }: { opId: string; isOnGpu: boolean }) {
  const [clock, setClock] = useState<Clock>(isOnGpu ? "gpu" : "cpu");
  const calls = useScoped<OpCalls>(path(opId, "calls/"));
  const choices = [
    ["gpu", t("GPU time")],
    ["cpu", t("CPU time")],
  ] as const;
  const choice = (
    <Segmented label={t("Time")} choices={choices} value={clock} onChange={setClock} />
  );
  return (
    <>
      <Panel title={t("Over the iterations")} span={8} actions={choice}>
        <Loaded resource={calls}>{(data) => <OverIterations calls={data} clock={clock} />}</Loaded>
      </Panel>
      <Panel
        title={t("Durations of a call")}
        span={4}
        actions={calls.data !== null && <LongestCall calls={calls.data} />}
      >
        <Loaded resource={calls}>
          {(data) => {
            const bins = data[`${clock}_time_bins`];
            if (bins === null) return <NotKnown reason={data.unknown[`${clock}_time_bins`]} />;
            return <Histogram bins={bins} noun={CALLS} />;
          }}
        </Loaded>
      </Panel>
      <Panel title={t("Shapes")} span={12}>
        <Loaded resource={calls}>{(data) => <Shapes opId={opId} calls={data} />}</Loaded>
      </Panel>
    </>
  );
}

function OverIterations({ calls, clock }: { calls: OpCalls; clock: Clock }) {
  const op = useQuery().get("op");
  const values = calls.iterations.map((row) => row[`${clock}_time_ns`]);
  const known = values.filter((value) => value !== null);
  if (known.length < values.length) return <NotKnown reason={calls.unknown[`${clock}_time_ns`]} />;
  if (known.length === 0) return <Empty title={t("No iteration is aggregated")} />;
  return (
    <Trend
      index={calls.iterations.map((row) => row.iteration_index)}
      values={known}
      onSelect={(iteration) => showIteration(iteration, op)}
    />
  );
}

/** What the table of its kernels leaves out of its GPU time. */
function CopiesAndSets({ op }: { op: OpRow }) {
  const scale = useScale();
  const url = { page_size: MOST_KERNELS };
  const { data } = useScoped<ListPage<OpKernelsRow>>(path(op.op_id, "kernels/"), url);
  if (data === null || data.count > MOST_KERNELS || op.gpu_time_ns === null) return null;
  const kernels = data.results.reduce((sum, row) => sum + (row.gpu_time_ns ?? 0), 0);
  const rest = op.gpu_time_ns - kernels;
  if (rest <= 0) return null;
  return (
    <p class="muted">
      {t("Shares are of the time of its kernels; its copies and sets take another {time}.", {
        time: sumText(rest, scale),
      })}
    </p>
  );
}

/** Recorded with the calls; for a backward op those of the operators that it ran. */
function Shapes({ opId, calls }: { opId: string; calls: OpCalls }) {
  const isRecorded = calls.shapes !== null;
  const scoped = path(opId, "units/");
  const units = useScoped<ListPage<OpUnitsRow>>(scoped, { page_size: 50 });
  if (isRecorded) return <CallShapes calls={calls} />;
  const rows = (units.data?.results ?? []).filter((row) => (row.input_shapes ?? "") !== "");
  if (units.data === null && units.error === null) return <Skeleton lines={2} />;
  if (rows.length === 0) return <NotKnown reason={calls.unknown.shapes} />;
  return (
    <SmallTable
      label={t("Shapes")}
      rows={rows}
      rowKey={(row) => String(row.unit_id)}
      columns={[
        [t("Operator"), (row) => row.unit_name],
        [t("Input shapes"), (row) => <code>{row.input_shapes}</code>],
        [t("Calls"), (row) => formatInt(row.num_calls ?? 0), RIGHT],
      ]}
    />
  );
}

function shapesText(text: string) {
  if (text !== "") return <code>{text}</code>;
  return <Unknown reason={t("The profile does not contain these shapes.")} />;
}

function CallShapes({ calls }: { calls: OpCalls }) {
  const shapes = calls.shapes ?? [];
  const left = (calls.num_shapes ?? 0) - shapes.length;
  const scale = useScale();
  const perStep = (ns: number | null) => (ns === null ? null : ns / scale.steps);
  const unit = unitOf(shapes.map((row) => perStep(row.gpu_time_ns)));
  return (
    <SmallTable
      label={t("Shapes")}
      rows={shapes}
      rowKey={(row) => `${row.input_shapes} ${row.output_shapes}`}
      columns={[
        [t("Input shapes"), (row) => shapesText(row.input_shapes)],
        [t("Output shapes"), (row) => shapesText(row.output_shapes)],
        [t("Calls"), (row) => sumCount(row.num_calls, scale), RIGHT],
        [
          `${t("GPU time")} (${sumUnit(unit, scale)})`,
          (row) => timeIn(perStep(row.gpu_time_ns), unit),
          RIGHT,
        ],
      ]}
      more={left > 0 ? t("{count} further shapes with less GPU time", { count: left }) : null}
    />
  );
}

/** Work of a call that the peak rates end sooner waits for its start: a kernel takes 1,000 at least. */
const LEAST_IDEAL_NS = 50;

function Efficiency({ opId }: { opId: string }) {
  const found = useScoped<ListPage<OpEfficiencyRow>>("op-efficiency/", { op_id: opId });
  const rates = useScoped<ListPage<PeakRatesRow>>("peak-rates/", { page_size: 100 });
  return (
    <Loaded resource={found}>
      {(data) => {
        const row = data.results[0];
        if (row === undefined) {
          return <NotKnown reason={data.unknown?.["*"] ?? t("It ran nothing on a GPU.")} />;
        }
        if ((row.ideal_time_ns ?? LEAST_IDEAL_NS) / (row.num_calls || 1) < LEAST_IDEAL_NS) {
          const reason = t(
            "Its work is too small for a roofline: starting it takes longer than the work at the peak rates.",
          );
          return <NotKnown reason={reason} />;
        }
        if (row.peak_pct === null && row.tflops_per_second === null) {
          return <NotKnown reason={row.unknown_reason ?? data.unknown?.peak_pct} />;
        }
        return <RooflinePoint row={row} rates={rates.data?.results ?? []} />;
      }}
    </Loaded>
  );
}

function Source({ op }: { op: OpRow }) {
  if ((op.stack_trace ?? "") === "") {
    const reason = op.unknown.stack_trace ?? t("The profile contains no call stacks.");
    return <NotKnown reason={reason} />;
  }
  return <StackTrace trace={op.stack_trace} line={op.source_line} />;
}
