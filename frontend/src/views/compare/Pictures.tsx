/** The waterfall by class, the modules colored by change, and the times of one row. */

import { useRef } from "preact/hooks";
import type { CompareModule, ComparisonSummary } from "../../api/types";
import { useWidth } from "../../charts/useWidth";
import { t } from "../../i18n";
import { durationText, formatTimeIn } from "../../lib/units";
import { type Box, icicleBoxes, moduleTree, ns, waterfallBars } from "./model";

const WIDTH = 960;
const ROW = 24;
const LABEL = 200;
/** On a phone, and the room of the numbers. */
const NARROW_LABEL = 140;
const VALUE = 90;
const LEAST_WIDTH = 300;
const MOST_DEPTH = 8;

function signed(value: number): string {
  return `${value < 0 ? "−" : "+"}${formatTimeIn(Math.abs(value), "ms")} ms`;
}

/** Rounded as it is shown, so that the shown changes add up to the shown steps. */
function inShownDigits(time_ns: number): number {
  return Math.round(time_ns / 1000) * 1000;
}

export function Waterfall({ found }: { found: ComparisonSummary }) {
  const bars = waterfallBars(found, [t("Base step, as profiled"), t("New step, as profiled")]);
  const most = Math.max(...bars.flatMap((bar) => [bar.start, bar.stop]), 1);
  const holder = useRef<HTMLDivElement>(null);
  const width = Math.max(useWidth(holder), LEAST_WIDTH);
  const label = width < WIDTH / 2 ? NARROW_LABEL : LABEL;
  const scale = (width - label - VALUE) / most;
  return (
    <div ref={holder}>
      <svg
        class="compare-picture compare-icicle"
        width={width}
        height={bars.length * ROW}
        role="img"
        aria-label={t("From the base step to the new step, class by class")}
      >
        {bars.map((bar, place) => {
          const low = Math.min(bar.start, bar.stop) * scale;
          const length = Math.max(Math.abs(bar.stop - bar.start) * scale, 1);
          const text =
            bar.kind === "total"
              ? `${formatTimeIn(bar.stop, "ms")} ms`
              : signed(inShownDigits(bar.stop) - inShownDigits(bar.start));
          return (
            <g key={`${place}`} transform={`translate(0 ${place * ROW})`}>
              <text class="compare-name" x={label - 8} y={16}>
                {bar.name}
              </text>
              <rect
                class={`is-${bar.kind}`}
                x={label + low}
                y={4}
                width={length}
                height={ROW - 8}
              />
              <text x={label + low + length + 6} y={16}>
                {text}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

export interface IcicleProps {
  readonly modules: readonly CompareModule[];
  readonly chosen: string | null;
  readonly onChoose: (path: string) => void;
}

export function Icicle({ modules, chosen, onChoose }: IcicleProps) {
  const root = moduleTree(modules);
  const boxes = icicleBoxes(root, MOST_DEPTH, 0.002);
  const depth = Math.max(...boxes.map((box) => box.depth), 0) + 1;
  const changes = [...root.parts.values()].map((part) => Math.abs(part.new - part.base));
  const largest = Math.max(...changes, 1);
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  return (
    <div ref={holder}>
      <svg
        class="compare-picture compare-icicle"
        width={width}
        height={depth * ROW}
        role="img"
        aria-label={t(
          "Modules as wide as their time, colored by their change; the table has them all",
        )}
      >
        {boxes.map((box) => (
          <ModuleBox
            key={box.module.path}
            box={box}
            whole={width}
            largest={largest}
            isChosen={box.module.path === chosen}
            onChoose={onChoose}
          />
        ))}
      </svg>
    </div>
  );
}

function ModuleBox(props: {
  box: Box;
  /** Width of the picture. Unit: px. */
  whole: number;
  largest: number;
  isChosen: boolean;
  onChoose: (path: string) => void;
}) {
  const { box, whole, largest, isChosen, onChoose } = props;
  const { module } = box;
  const change = module.new - module.base;
  const name = module.path === "" ? t("Step") : module.name;
  const width = Math.max(box.width * whole - 1, 0.5);
  const letters = Math.floor((width - 8) / 7); // Its text begins 4 px from the edge, and ends there.
  const frame = { x: box.x * whole, y: box.depth * ROW, width, height: ROW - 1 };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the table can be filtered by keyboard
    <g class={isChosen ? "is-chosen" : ""} onClick={() => onChoose(module.path)}>
      <title>
        {`${name}: ${durationText(module.base)} → ${durationText(module.new)} (${signed(change)})`}
      </title>
      <rect class="compare-box" {...frame} />
      <rect
        class={change > 0 ? "is-slower" : "is-faster"}
        fill-opacity={Math.min(Math.abs(change) / largest, 1) * 0.75}
        {...frame}
      />
      {letters > 1 && (
        <text x={frame.x + 4} y={frame.y + 16}>
          {name.length <= letters ? name : `${name.slice(0, letters - 1)}…`}
        </text>
      )}
    </g>
  );
}

export function Strips(props: {
  base: readonly (readonly number[])[];
  next: readonly (readonly number[])[];
}) {
  const sides = [
    { name: t("Base"), kind: "base", values: props.base.flat() },
    { name: t("New"), kind: "new", values: props.next.flat() },
  ];
  const all = sides.flatMap((side) => side.values);
  const low = Math.min(...all);
  const scale = (WIDTH - LABEL - 200) / (Math.max(...all) - low || 1);
  return (
    <svg
      class="compare-picture"
      viewBox={`0 0 ${WIDTH} ${2 * ROW}`}
      role="img"
      aria-label={t("The time in every iteration of both sides")}
    >
      {sides.map((side, place) => {
        const mean = side.values.reduce((sum, value) => sum + value, 0) / side.values.length;
        return (
          <g key={side.kind} transform={`translate(0 ${place * ROW})`}>
            <text class="compare-name" x={LABEL - 16} y={16}>
              {side.name}
            </text>
            {side.values.map((value, index) => (
              <circle
                key={index}
                class={`is-${side.kind}`}
                cx={LABEL + (value - low) * scale}
                cy={12}
                r={3.5}
              >
                <title>{durationText(value)}</title>
              </circle>
            ))}
            <text x={WIDTH - 190} y={16}>
              {t("mean {mean}", { mean: durationText(mean) })}
            </text>
          </g>
        );
      })}
    </svg>
  );
}

export function changeText(row: { difference_ns: unknown }): string {
  return signed(ns(row.difference_ns));
}
