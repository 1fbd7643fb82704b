/** The modules of the model as an icicle: each below the module that contains it, as wide as its time. */

import { useMemo, useRef, useState } from "preact/hooks";
import type { ListPage } from "../../api/lists";
import type { GroupEfficiencyRow, GroupOpsRow } from "../../api/types";
import { useWidth } from "../../charts/useWidth";
import { t } from "../../i18n";
import {
  type Box,
  boxes,
  type FlameNode,
  type FlameRow,
  flameTree,
  hottestPath,
  pathTo,
  weight,
} from "../../lib/flame";
import { sumText, useScale } from "../../lib/perStep";
import { formatInt, formatPct } from "../../lib/units";
import { navigate, useQuery } from "../../state/location";
import { useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { Segmented } from "../../ui/Segmented";
import { Empty, Loaded } from "../../ui/states";
import { openPathOf, writeOpen } from "./openGroups";

const ROW = 22;
/** Width of a letter of the monospace face at 12 px. */
const LETTER = 7.3;
const MOST_GROUPS = 200;
const PARAMETER = "flame";

const METRICS = [
  ["gpu", t("GPU time")],
  ["cpu", t("CPU time")],
  ["left", t("Time lost vs. roofline")],
] as const;

type Metric = (typeof METRICS)[number][0];

interface Groups {
  readonly rows: readonly FlameRow[];
  readonly count: number;
  readonly reason: string | undefined;
}

function label(name: string): string {
  return name.replace(/\/$/, "").split("/").at(-1) || name;
}

/** A page with the groups that have the most of it. */
function useGroups(metric: Metric): { found: ReturnType<typeof useScoped<ListPage<object>>> } {
  const isLeft = metric === "left";
  const path = isLeft ? "group-efficiency/" : "group-ops/";
  const params = isLeft
    ? { ordering: "-left_time_ns", page_size: MOST_GROUPS }
    : { kind__in: "group", ordering: `-${metric}_time_ns,level`, page_size: MOST_GROUPS };
  return { found: useScoped<ListPage<object>>(path, params) };
}

function groupsOf(page: ListPage<object>, metric: Metric): Groups {
  const { count, unknown } = page;
  if (metric === "left") {
    const rows = (page.results as readonly GroupEfficiencyRow[]).flatMap((row) =>
      row.group_name === "_CompleteModel_" || row.group_name === undefined
        ? []
        : [{ name: row.group_name, label: label(row.group_name), value: row.left_time_ns }],
    );
    return { rows, count, reason: unknown?.["*"] ?? unknown?.left_time_ns };
  }
  const rows = (page.results as readonly GroupOpsRow[]).map((row) => ({
    name: row.name,
    label: label(row.name),
    value: metric === "gpu" ? row.gpu_time_ns : row.cpu_time_ns,
  }));
  return { rows, count, reason: unknown?.["*"] };
}

export function FlameGraph() {
  const [metric, setMetric] = useState<Metric>("gpu");
  const { found } = useGroups(metric);
  const choice = (
    <Segmented label={t("Width of a box")} choices={METRICS} value={metric} onChange={setMetric} />
  );
  return (
    <Panel title={t("Modules")} span={12} actions={choice} class="flame-panel">
      <Loaded resource={found}>
        {(page) => {
          const groups = groupsOf(page, metric);
          const roots = flameTree(groups.rows);
          if (roots.every((root) => weight(root) <= 0)) {
            return <Empty title={t("Not known")}>{groups.reason ?? t("No module has any.")}</Empty>;
          }
          return (
            <>
              <Icicle roots={roots} key={metric} />
              {groups.count > MOST_GROUPS && (
                <p class="panel-note">
                  {t("The {shown} largest of {count} modules; smaller ones are in the rest.", {
                    shown: MOST_GROUPS,
                    count: formatInt(groups.count),
                  })}
                </p>
              )}
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function Icicle({ roots }: { roots: readonly FlameNode[] }) {
  const zoomed = useQuery().get(PARAMETER) ?? "";
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const svg = useRef<SVGSVGElement>(null);
  const hot = useMemo(() => hottestPath(roots), [roots]);
  const [active, setActive] = useState(hot.at(-1) ?? "");
  const path = pathTo(roots, zoomed);
  const shown = useMemo(() => {
    const above = path.slice(0, -1);
    const wide = above.map((node, level) => ({ ...node, level, x: 0, width, merged: 0 }));
    const last = path.at(-1);
    return [...wide, ...boxes(last === undefined ? roots : [last], width, 0, above.length)];
  }, [path, roots, width]);
  const depth = Math.max(0, ...shown.map((box) => box.level)) + 1;
  const total = roots.reduce((sum, root) => sum + weight(root), 0);
  const entry = shown.some((box) => box.merged === 0 && box.name === active)
    ? active
    : shown[0]?.name;

  const open = (name: string) =>
    navigate(
      { [PARAMETER]: name === zoomed ? null : name, open: writeOpen(openPathOf(name)) },
      { replace: true },
    );
  const onKeyDown = (event: KeyboardEvent) => {
    const at = shown.find((box) => box.merged === 0 && box.name === entry);
    if (at === undefined) return;
    const action = keyAction(event.key, at, shown, open);
    if (action === null) return;
    event.preventDefault();
    if (typeof action === "function") return action();
    setActive(action.name);
    svg.current?.querySelector<SVGElement>(`[data-name="${CSS.escape(action.name)}"]`)?.focus();
  };
  return (
    <div ref={holder} class="flame">
      <svg
        ref={svg}
        width={width}
        height={depth * ROW}
        role="tree"
        aria-label={t("Modules by their time; arrow keys move, Enter zooms")}
        onKeyDown={onKeyDown}
      >
        {shown.map((box) => (
          <OneBox
            key={`${box.merged} ${box.level} ${box.name}`}
            box={box}
            total={total}
            isHot={box.merged === 0 && hot.includes(box.name)}
            isEntry={box.merged === 0 && box.name === entry}
            onOpen={() => box.merged === 0 && open(box.name)}
            onFocus={() => setActive(box.name)}
          />
        ))}
      </svg>
    </div>
  );
}

/** The box that a key moves to, or what it does; null for other keys. */
function keyAction(
  key: string,
  at: Box,
  shown: readonly Box[],
  open: (name: string) => void,
): Box | (() => void) | null {
  const groups = shown.filter((box) => box.merged === 0);
  const row = groups.filter((box) => box.level === at.level).sort((a, b) => a.x - b.x);
  const place = row.indexOf(at);
  switch (key) {
    case "ArrowRight":
      return row[place + 1] ?? null;
    case "ArrowLeft":
      return row[place - 1] ?? null;
    case "ArrowUp":
      return (
        groups.find((box) => box.level === at.level - 1 && at.name.startsWith(box.name)) ?? null
      );
    case "ArrowDown":
      return (
        groups.find((box) => box.level === at.level + 1 && box.name.startsWith(at.name)) ?? null
      );
    case "Enter":
    case " ":
      return () => open(at.name);
    default:
      return null;
  }
}

function nameOf({ merged, name }: Box): string {
  if (merged === 0) return name;
  return merged > 0 ? t("{count} others", { count: formatInt(merged) }) : t("own ops");
}

function OneBox(props: {
  box: Box;
  total: number;
  isHot: boolean;
  isEntry: boolean;
  onOpen: () => void;
  onFocus: () => void;
}) {
  const { box, total, isHot, isEntry } = props;
  const name = nameOf(box);
  const scale = useScale();
  const time = box.value === null ? t("Not known") : sumText(box.value, scale);
  const words = `${name}: ${time}, ${formatPct((100 * (box.value ?? 0)) / total)} %`;
  const letters = Math.floor((box.width - 10) / LETTER);
  const text = box.merged === 0 ? box.label : name;
  return (
    <g
      role="treeitem"
      aria-level={box.level + 1}
      aria-selected={isEntry}
      tabIndex={isEntry ? 0 : -1}
      data-name={box.merged === 0 ? box.name : undefined}
      class={`flame-box ${isHot ? "is-hot" : ""} ${box.merged === 0 ? "" : "is-others"}`}
      onClick={props.onOpen}
      onFocus={props.onFocus}
    >
      <title>{words}</title>
      <rect
        x={box.x + 0.5}
        y={box.level * ROW + 0.5}
        width={Math.max(box.width - 1, 0.5)}
        height={ROW - 1}
      />
      {letters >= 3 && (
        // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a text of SVG takes no focus; its box has a label
        <text x={box.x + 5} y={box.level * ROW + ROW / 2 + 4} aria-hidden="true">
          {text.length > letters ? `${text.slice(0, letters - 1)}…` : text}
        </text>
      )}
    </g>
  );
}
