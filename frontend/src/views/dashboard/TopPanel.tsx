/** What took most GPU time: op types, modules, ops or kernels. A row opens its list. */

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Params } from "../../api/client";
import type { ListPage } from "../../api/lists";
import type { GroupOpsRow, OpsRow, OpTypesRow, TopKernel } from "../../api/types";
import { useWidth } from "../../charts/useWidth";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { shortNames } from "../../lib/names";
import { type Scale, sumUnit, useScale } from "../../lib/perStep";
import { exactNs, formatCount, formatInt, formatPct, formatTimeIn } from "../../lib/units";
import { navigate, useQuery } from "../../state/location";
import type { QueryPatch } from "../../state/query";
import { useScope, useScoped } from "../../state/scope";
import { kernelTone } from "../../table/specs/kernels";
import { missedTensorCores, opTone } from "../../table/specs/ops";
import { LimitMark } from "../../ui/Limits";
import { Direction, Flag, Name } from "../../ui/Name";
import { Panel } from "../../ui/Panel";
import { ScaleSwitch } from "../../ui/ScaleSwitch";
import { Segmented } from "../../ui/Segmented";
import { Empty, Loaded, Skeleton, Unknown } from "../../ui/states";
import { openPathOf, writeOpen } from "../groups/openGroups";
import { depthIn, ownName, pickModules } from "./modules";
import { ViewLink } from "./ViewLink";

const ROWS = 10;
const INDENT_PX = 16;
/** Width of a letter of the monospace face, and of the edges of a name's cell. */
const LETTER_PX = 7.23;
const EDGES_PX = 26;
/** Least width of the names with the column of the times, and width of each other column. */
const NAME_AND_TIME_PX = 320;
const VALUE_PX = 96;
const TABS = [
  { key: "types", label: t("Op types"), view: "op-types", all: t("All op types") },
  { key: "modules", label: t("Modules"), view: "group-ops", all: t("All modules") },
  { key: "ops", label: t("Ops"), view: "ops", all: t("All ops") },
  { key: "kernels", label: t("Kernels"), view: "ops", all: t("All kernels") },
] as const;

type Tab = (typeof TABS)[number];

/** Ops, where the profile has any. */
function useFirstTab(): Tab {
  const { profile } = useScope();
  return profile.info.no_ops_reason ? TABS[3] : TABS[2];
}

export function TopPanel() {
  const wanted = useQuery().get("top");
  const first = useFirstTab();
  const tab = TABS.find(({ key }) => key === wanted) ?? first;
  return (
    <Panel
      title={tab.key === "ops" ? t("Top 10 GPU ops") : t("Top 10 by GPU time")}
      info={EXPLANATIONS.topOps}
      span={7}
      class="panel-flush"
      actions={<ViewLink view={tab.view}>{tab.all}</ViewLink>}
    >
      <div class="top-tools">
        <Segmented
          label={t("Top 10 of")}
          choices={TABS.map((one) => [one, one.label] as const)}
          value={tab}
          onChange={(one) => navigate({ top: one === first ? null : one.key }, { replace: true })}
        />
        <ScaleSwitch />
      </div>
      {tab.key === "types" && <TopTypes />}
      {tab.key === "modules" && <TopModules />}
      {tab.key === "ops" && <TopOps />}
      {tab.key === "kernels" && <TopKernels />}
    </Panel>
  );
}

function TopTypes() {
  return (
    <TopTable<OpTypesRow>
      path="op-types/"
      params={{ ordering: "-gpu_time_ns", page_size: 25 }}
      caption={t("Op types with the most GPU time")}
      time={(row) => row.gpu_time_ns}
      tone={() => "gpu"}
      name={(row) => row.op_type}
      to={(row) => ({ view: "ops", patch: { "ops.f.op_type__in": row.op_type } })}
      columns={[
        number<OpTypesRow>(t("Ops"), (row) => row.num_ops),
        sum<OpTypesRow>(t("Calls"), (row) => row.num_calls),
      ]}
    />
  );
}

function TopModules() {
  return (
    <TopTable<GroupOpsRow>
      path="group-ops/"
      params={{ kind__in: "group", ordering: "-gpu_time_ns", page_size: 200 }}
      caption={t("Modules with the most GPU time")}
      pick={pickModules}
      time={(row) => row.gpu_time_ns}
      tone={() => "gpu"}
      name={(row) => row.name}
      inTree={(row) => ownName(row.name)}
      depth={(row, rows) =>
        depthIn(
          row.name,
          rows.map((one) => one.name),
        )
      }
      to={(row) => ({
        view: "group-ops",
        patch: { open: writeOpen(openPathOf(row.name)) },
      })}
      columns={[
        sum<GroupOpsRow>(t("Calls"), (row) => row.num_op_instances),
        number<GroupOpsRow>(t("TC eligible ops"), (row) => row.num_tc_eligible_ops),
        number<GroupOpsRow>(t("Using TC"), (row) => row.num_ops_using_tc),
      ]}
    />
  );
}

function TopOps() {
  const hasDirection = !useScope().profile.info.no_ops_reason;
  return (
    <TopTable<OpsRow>
      path="top-ops/"
      caption={t("Ops with the most GPU time")}
      time={(row) => row.gpu_time_ns}
      share={(row) => row.share_pct}
      tone={opTone}
      name={(row) => row.op_name ?? ""}
      to={(row) => ({ view: "op", patch: { op: row.op_id } })}
      columns={[
        ...(hasDirection
          ? [
              {
                title: t("Direction"),
                isEmpty: (row: OpsRow) => !row.direction,
                draw: (row: OpsRow) => <Direction value={row.direction ?? ""} />,
              },
            ]
          : []),
        sum<OpsRow>(t("Calls"), (row) => row.num_calls),
        flag<OpsRow>(t("TC"), (row) => row.using_tc, missedTensorCores),
      ]}
    />
  );
}

function TopKernels() {
  return (
    <TopTable<TopKernel>
      path="top-kernels/"
      caption={t("Kernels with the most GPU time")}
      time={(row) => row.gpu_time_ns}
      share={(row) => row.share_pct}
      tone={kernelTone}
      name={(row) => row.readable_name}
      full={(row) => row.kernel_long_name ?? row.kernel_name}
      to={(row) => ({
        view: "kernel",
        patch: { kernel: row.kernel_long_name ?? row.kernel_name },
      })}
      columns={[
        sum<TopKernel>(t("Calls"), (row) => row.num_calls),
        flag<TopKernel>(t("TC"), (row) => row.uses_tc),
      ]}
    />
  );
}

interface TopColumn<Row> {
  readonly title: string;
  readonly align?: "right" | "center";
  /** A column in which all cells are empty is left out. */
  readonly isEmpty?: (row: Row) => boolean;
  /** The value adds up the aggregated iterations. */
  readonly isSum?: boolean;
  readonly draw: (row: Row, scale: Scale) => ComponentChildren;
}

function number<Row>(title: string, value: (row: Row) => number | null): TopColumn<Row> {
  const draw = (row: Row) => {
    const count = value(row);
    return count === null ? <Unknown /> : formatInt(count);
  };
  return { title, align: "right", draw };
}

function sum<Row>(title: string, value: (row: Row) => number | null): TopColumn<Row> {
  const draw = (row: Row, { steps }: Scale) => {
    const count = value(row);
    return count === null ? <Unknown /> : formatCount(count / steps);
  };
  return { title, align: "right", isSum: true, draw };
}

function flag<Row>(
  title: string,
  value: (row: Row) => boolean | null,
  warn?: (row: Row) => string | undefined,
): TopColumn<Row> {
  const draw = (row: Row) => {
    const is = value(row);
    return is === null ? <Unknown /> : <Flag value={is} warn={warn?.(row)} />;
  };
  return { title, align: "center", draw };
}

interface TopTableProps<Row> {
  readonly path: string;
  readonly params?: Params;
  readonly caption: string;
  /** The rows that count, where the list has others. */
  readonly pick?: (rows: readonly Row[]) => readonly Row[];
  readonly time: (row: Row) => number | null;
  readonly share?: (row: Row) => number | null;
  readonly tone: (row: Row) => string;
  readonly name: (row: Row) => string;
  /** The name on hover, where `name` is shorter. */
  readonly full?: (row: Row) => string;
  /** The name of a row of a tree, where its place says the rest. */
  readonly inTree?: (row: Row) => string;
  /** How deep a row is in the tree of the rows. */
  readonly depth?: (row: Row, rows: readonly Row[]) => number;
  readonly to: (row: Row) => { readonly view: string; readonly patch: QueryPatch };
  readonly columns: readonly TopColumn<Row>[];
}

function TopTable<Row>(props: TopTableProps<Row>) {
  const rows = useScoped<Pick<ListPage<Row>, "results">>(props.path, props.params);
  const { profile } = useScope();
  return (
    <Loaded resource={rows} skeleton={<Skeleton lines={ROWS} />}>
      {(data) => {
        const shown = (props.pick?.(data.results) ?? data.results).slice(0, ROWS);
        return shown.length === 0 ? (
          <Empty title={t("Nothing to list")}>
            {profile.info.no_ops_reason ?? t("This aggregation has none.")}
          </Empty>
        ) : (
          <Rows {...props} rows={shown} />
        );
      }}
    </Loaded>
  );
}

function Rows<Row>(props: TopTableProps<Row> & { rows: readonly Row[] }) {
  const { rows } = props;
  const columns = props.columns.filter(({ isEmpty }) => !(isEmpty && rows.every(isEmpty)));
  const scale = useScale();
  const largest = Math.max(0, ...rows.map((row) => props.time(row) ?? 0));
  const head = useRef<HTMLTableCellElement>(null);
  const letters = Math.max(8, Math.floor((useWidth(head) - EDGES_PX) / LETTER_PX));
  const names = shortNames(rows.map(props.name), letters);
  return (
    <div class="table-scroll">
      <table
        class="top-ops"
        style={{ minWidth: `${NAME_AND_TIME_PX + VALUE_PX * columns.length}px` }}
      >
        <caption class="visually-hidden">{props.caption}</caption>
        <thead>
          <tr>
            <th ref={head} scope="col" class="top-name">
              {t("Name")}
            </th>
            <th scope="col" class="top-time align-right">
              {t("GPU time")} <span class="th-unit">{sumUnit("ms", scale)}</span>
              <LimitMark figure="gpu_time" />
            </th>
            {columns.map(({ title, align, isSum }) => (
              <th key={title} scope="col" class={`top-value align-${align ?? "left"}`}>
                {title} {isSum && <span class="th-unit">{sumUnit(undefined, scale)}</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, place) => (
            <tr key={place}>
              <td>
                <ViewLink class="row-link" {...props.to(row)}>
                  <span
                    class="row-name"
                    style={{ paddingLeft: `${INDENT_PX * (props.depth?.(row, rows) ?? 0)}px` }}
                  >
                    <Name
                      name={props.inTree?.(row) ?? names.text(props.name(row))}
                      full={props.full?.(row) ?? props.name(row)}
                    />
                  </span>
                </ViewLink>
              </td>
              <td class="align-right">
                <TimeBar
                  ns={props.time(row)}
                  pct={props.share?.(row) ?? null}
                  tone={props.tone(row)}
                  largest={largest}
                  scale={scale}
                />
              </td>
              {columns.map(({ title, align, draw }) => (
                <td key={title} class={`align-${align ?? "left"}`}>
                  {draw(row, scale)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** GPU time behind a bar that is full for the first row. */
function TimeBar(props: {
  ns: number | null;
  pct: number | null;
  tone: string;
  largest: number;
  scale: Scale;
}) {
  const { ns, pct, largest, scale } = props;
  if (ns === null) return <Unknown />;
  return (
    <span class="share" title={exactNs(ns)}>
      <span class="share-track" aria-hidden="true">
        <span
          class={`share-fill part-${props.tone}`}
          style={{ width: `${largest > 0 ? (100 * ns) / largest : 0}%` }}
        />
      </span>
      <span class="share-value">{formatTimeIn(ns / scale.steps, "ms")}</span>
      {pct !== null && <span class="share-pct">{formatPct(pct)} %</span>}
    </span>
  );
}
