/** Stacked bars of the iterations from the server's figure, with legend, hover card and zoom. */

import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import { IDLE_PARTS, PARTS } from "../lib/activities";
import { phaseName } from "../lib/aggregations";
import { currentQuery, navigate } from "../state/location";
import { patchForView } from "../state/query";
import { useScoped } from "../state/scope";
import { useTheme } from "../state/theme";
import { Button } from "../ui/Button";
import { Empty, ErrorNote, Skeleton, useDimmed } from "../ui/states";
import { Axes } from "./Axes";
import { IterationCard } from "./IterationCard";
import {
  barAt,
  barsFor,
  type Drawing,
  drawFigure,
  type FigureBar,
  type IndexRange,
  type IterationFigure,
  MARGIN,
  panned,
  presentParts,
  presentPhases,
  scaled,
} from "./iterationFigure";
import { SelectionBar } from "./SelectionBar";
import { useWidth } from "./useWidth";

export interface IterationChartProps {
  readonly height: number;
  readonly range: "all" | "profiled";
  readonly zoom: IndexRange | null;
  /** First and last iteration that are aggregated, or would be. */
  readonly bounds: IndexRange | null;
  readonly isFullHeight?: boolean;
  readonly onZoom?: (zoom: IndexRange | null) => void;
  /** How far the zoom can be moved. */
  readonly limits?: IndexRange | null;
  /** Called when bars are cut off at the top. */
  readonly onCut?: (isCut: boolean) => void;
  /** Whether what is beside it explains the colors of the parts. */
  readonly arePartsKnown?: boolean;
}

/** What interval 0 holds, whichever op is the key node. */
const START_UP = t(
  "From the start of the program to the end of the first key node: its set-up and, where the key node ends a step, the first step",
);
const OUTSIDE = "outside";
/** Shades of gray that distinguish phases: colors are those of the parts. */
const PHASE_SHADES = 4;
/** A pointer that moves less than this clicks. Unit: pixels. */
const DRAG_FROM = 4;

export function IterationChart(props: IterationChartProps) {
  const theme = useTheme();
  const figure = useScoped<IterationFigure>("figures/iteration-summary/", {
    theme,
    view: props.range,
    start: props.zoom?.[0],
    stop: props.zoom?.[1],
    max_bars: barsFor(window.innerWidth),
  });
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const dimmed = useDimmed<HTMLDivElement>(figure.isStale);
  if (figure.error !== null) return <ErrorNote error={figure.error} onRetry={figure.reload} />;
  if (figure.data === null) {
    return (
      <div class="chart-loading" style={{ height: `${props.height + 30}px` }}>
        <Skeleton lines={6} height={20} />
      </div>
    );
  }
  if (figure.data.data.length === 0) {
    return <Empty title={t("No iterations in this range")} />;
  }
  return (
    <div ref={dimmed} class={`chart ${figure.isStale ? "is-stale" : ""}`}>
      {(!props.arePartsKnown || presentPhases(figure.data).length > 0) && (
        <ChartLegend
          figure={figure.data}
          parts={props.arePartsKnown ? [] : presentParts(figure.data)}
          hidden={hidden}
          onChange={setHidden}
        />
      )}
      <Plot {...props} figure={figure.data} hidden={hidden} />
    </div>
  );
}

interface PlotProps extends IterationChartProps {
  readonly figure: IterationFigure;
  readonly hidden: ReadonlySet<string>;
}

/** Where a drag began and where it is now. Unit: pixels from the left. */
interface Drag {
  readonly from: number;
  readonly to: number;
  readonly isMove: boolean;
}

function Plot(props: PlotProps) {
  const { figure, hidden, bounds, height, onCut, onZoom } = props;
  const isFullHeight = props.isFullHeight ?? false;
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const [hovered, setHovered] = useState<number | null>(null);
  const [drag, setDrag] = useState<Drag | null>(null);
  const [selected, setSelected] = useState<IndexRange | null>(null);
  const [start, stop] = [bounds?.[0] ?? null, bounds?.[1] ?? null];
  const drawing = useMemo(
    () =>
      drawFigure(figure, {
        hidden,
        bounds: start === null || stop === null ? null : [start, stop],
        width: Math.max(width, MARGIN.left + MARGIN.right + 1),
        height,
        isFullHeight,
      }),
    [figure, hidden, start, stop, width, height, isFullHeight],
  );
  useEffect(() => onCut?.(drawing.isCut), [drawing.isCut, onCut]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: places of another figure mean nothing
  useEffect(() => {
    setSelected(null);
    setHovered(null);
  }, [figure]);
  // The same element again: nothing of it is compared when only the pointer moves.
  const picture = useMemo(
    () => <Picture drawing={drawing} width={width} height={height} />,
    [drawing, width, height],
  );

  const { bars } = figure.layout.meta;
  const xOf = (event: PointerEvent) =>
    event.clientX - (holder.current?.getBoundingClientRect().left ?? 0);
  const rangeOf = ({ from, to }: Drag): IndexRange | null => {
    const ends = [from, to].map((x) => bars[barAt(drawing.bars, x)]);
    const [one, other] = ends;
    if (one === undefined || other === undefined) return null;
    return [Math.min(one.first, other.first), Math.max(one.last, other.last)];
  };
  const finish = (done: Drag) => {
    setDrag(null);
    if (Math.abs(done.to - done.from) < DRAG_FROM) {
      setSelected(null);
      const bar = bars[barAt(drawing.bars, done.from)];
      if (bar !== undefined) openBar(bar, onZoom);
    } else if (done.isMove) {
      const by = Math.round((done.from - done.to) / drawing.pixelsPerIteration);
      if (props.zoom !== null && props.limits != null)
        onZoom?.(panned(props.zoom, by, props.limits));
    } else {
      setSelected(rangeOf(done));
    }
  };
  const chosen = drag === null || drag.isMove ? selected : rangeOf(drag);
  const shownBar = hovered === null ? undefined : drawing.bars[hovered];
  return (
    // biome-ignore lint/a11y/useSemanticElements: there is no element for an explorable chart
    <div
      class="plot-frame"
      role="group"
      aria-label={t(
        "Bar chart of {count} bars, iterations {first} to {last}. Left and right arrows read the bars, Enter opens one.",
        { count: bars.length, first: figure.layout.meta.first, last: figure.layout.meta.last },
      )}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys read its bars
      tabIndex={0}
      onKeyDown={(event) => {
        // Its buttons have keys of their own.
        if (event.target !== event.currentTarget) return;
        const zoom = zoomAfterKey(event, props);
        if (zoom !== undefined) {
          event.preventDefault();
          onZoom?.(zoom);
          return;
        }
        const open = event.key === "Enter" && hovered !== null ? bars[hovered] : undefined;
        if (open !== undefined) {
          openBar(open, onZoom);
          return;
        }
        if (event.key === "Escape" && selected !== null) setSelected(null);
        const next = hoverAfterKey(event.key, hovered, bars.length);
        if (next === undefined) return;
        event.preventDefault();
        setHovered(next);
      }}
      onBlur={() => setHovered(null)}
    >
      <div
        ref={holder}
        class="plot"
        style={{ height: `${height}px` }}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          const x = xOf(event);
          setDrag({ from: x, to: x, isMove: event.shiftKey });
        }}
        onPointerMove={(event) => {
          const x = xOf(event);
          if (drag !== null) setDrag({ ...drag, to: x });
          const isInside = x >= MARGIN.left && x <= width - MARGIN.right;
          setHovered(isInside && drag === null ? barAt(drawing.bars, x) : null);
        }}
        onPointerUp={(event) => {
          if (drag !== null) finish({ ...drag, to: xOf(event) });
        }}
        onPointerCancel={() => setDrag(null)}
        onPointerLeave={() => setHovered(null)}
      >
        {width > 0 && picture}
        {chosen !== null && <Chosen range={chosen} bars={bars} drawing={drawing} height={height} />}
      </div>
      {shownBar !== undefined && hovered !== null && selected === null && (
        <IterationCard figure={figure} index={hovered} bar={shownBar} frameWidth={width} />
      )}
      {selected !== null && drag === null && (
        <SelectionBar
          range={selected}
          onClear={() => setSelected(null)}
          {...(onZoom === undefined ? {} : { onZoom })}
        />
      )}
    </div>
  );
}

/** The kernels of an iteration; several in one bar are looked at closer first. */
function openBar(bar: FigureBar, onZoom: ((zoom: IndexRange | null) => void) | undefined): void {
  const query = currentQuery();
  if (bar.first === bar.last) {
    const iteration = String(bar.first);
    navigate({ ...patchForView(query, "kernels-by-iteration"), iteration });
  } else if (onZoom !== undefined) {
    onZoom([bar.first, bar.last]);
  } else {
    navigate({ ...patchForView(query, "iterations"), zoom: `${bar.first}-${bar.last}` });
  }
}

/** The iterations that were dragged over. */
function Chosen(props: {
  range: IndexRange;
  bars: readonly FigureBar[];
  drawing: Drawing;
  height: number;
}) {
  const { range, bars, drawing, height } = props;
  const first = drawing.bars[bars.findIndex((bar) => bar.last >= range[0])];
  const last = drawing.bars[bars.findLastIndex((bar) => bar.first <= range[1])];
  if (first === undefined || last === undefined) return null;
  return (
    <span
      class="plot-selection"
      aria-hidden="true"
      style={{
        left: `${first.x}px`,
        width: `${last.x + last.width - first.x}px`,
        top: `${MARGIN.top}px`,
        height: `${height - MARGIN.top - MARGIN.bottom}px`,
      }}
    />
  );
}

/** The GPU's work in full color; what it waits for is lighter, as in every breakdown. */
function fillOf(part: string): string {
  const color = `var(--part-${part})`;
  return (IDLE_PARTS as ReadonlySet<string>).has(part)
    ? `color-mix(in srgb, ${color} 55%, var(--surface))`
    : color;
}

function Picture(props: { drawing: Drawing; width: number; height: number }) {
  const { drawing, width, height } = props;
  const hatch = useId();
  const bottom = height - MARGIN.bottom;
  return (
    <svg class="iterations-svg" width={width} height={height} aria-hidden="true">
      <defs>
        <pattern id={hatch} width="6" height="6" patternUnits="userSpaceOnUse">
          <path d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5" stroke="#ffffff" stroke-opacity="0.55" />
        </pattern>
      </defs>
      <Axes
        frame={{ left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom }}
        height={height}
        drawing={drawing}
        titles={[t("Iteration"), t("Duration ({unit})", { unit: drawing.unit })]}
      />
      {drawing.parts.map(({ part, path }) => (
        <path key={part} d={path} data-part={part} style={{ fill: fillOf(part) }} />
      ))}
      <path d={drawing.hatched} fill={`url(#${hatch})`} />
      <path class="plot-spikes" d={drawing.spikes} />
      {drawing.phases.map((path, index) => (
        <path key={index} class={`phase-${index % PHASE_SHADES}`} d={path} />
      ))}
      {drawing.bars.map((bar, index) => (
        <rect
          key={index}
          class="bar"
          x={bar.x}
          width={bar.width}
          y={MARGIN.top}
          height={bottom - MARGIN.top}
        />
      ))}
      {drawing.bounds.map((at) => (
        <line key={at} class="plot-bound" x1={at} x2={at} y1={MARGIN.top} y2={bottom} />
      ))}
      {drawing.boundLabels.map((label) => (
        <text
          key={label.text}
          class="plot-label"
          x={label.x}
          y={MARGIN.top - 22}
          text-anchor={label.anchor}
        >
          {label.text}
        </text>
      ))}
      {drawing.cuts.map((label) => (
        <text
          key={label.x}
          class="plot-cut"
          x={label.x}
          y={MARGIN.top - 6}
          text-anchor={label.anchor}
        >
          {label.text}
        </text>
      ))}
    </svg>
  );
}

/** The bar of the card after a key; null closes the card, undefined for other keys. */
function hoverAfterKey(key: string, now: number | null, count: number): number | null | undefined {
  if (key === "ArrowRight") return now === null ? 0 : Math.min(count - 1, now + 1);
  if (key === "ArrowLeft") return now === null ? count - 1 : Math.max(0, now - 1);
  if (key === "Escape" && now !== null) return null;
  return undefined;
}

/** What is shown after a key that zooms or moves; null for all, undefined is no such key. */
function zoomAfterKey(event: KeyboardEvent, props: PlotProps): IndexRange | null | undefined {
  const { meta } = props.figure.layout;
  // The figure may still be the one before: what counts is what was asked for.
  const shown: IndexRange = props.zoom ?? [meta.first, meta.last];
  const { limits, onZoom } = props;
  if (onZoom === undefined || limits === null || limits === undefined) return undefined;
  const half = Math.max(1, Math.round((shown[1] - shown[0] + 1) / 2));
  if (event.key === "+") return scaled(shown, 1 / 2, limits);
  if (event.key === "-") return scaled(shown, 2, limits);
  if (!event.shiftKey) return undefined;
  if (event.key === "ArrowRight") return panned(shown, half, limits);
  if (event.key === "ArrowLeft") return panned(shown, -half, limits);
  return undefined;
}

const LABELS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(PARTS.map((part) => [part.key, part.label])),
  [OUTSIDE]: t("Outside aggregation"),
};

function ChartLegend(props: {
  figure: IterationFigure;
  parts: readonly string[];
  hidden: ReadonlySet<string>;
  onChange: (hidden: ReadonlySet<string>) => void;
}) {
  const { figure, parts, hidden, onChange } = props;
  const hasHatched = figure.layout.meta.bars.some((bar) => bar.kind === "before");
  const toggle = (part: string) => {
    const next = new Set(hidden);
    if (!next.delete(part)) next.add(part);
    onChange(parts.every((key) => next.has(key)) ? new Set() : next);
  };
  return (
    <ul class="chart-legend">
      {parts.map((part) => (
        <li key={part}>
          <Button
            class={hidden.has(part) ? "is-off" : ""}
            aria-pressed={!hidden.has(part)}
            onClick={() => toggle(part)}
          >
            <span class={`swatch part-${part}`} />
            {LABELS[part] ?? part}
          </Button>
        </li>
      ))}
      {presentPhases(figure).map((phase, index) => (
        <li key={phase} class="chart-legend-note">
          <span class={`swatch phase-${index % PHASE_SHADES}`} />
          {phaseName(phase)}
        </li>
      ))}
      {hasHatched && (
        <li class="chart-legend-note">
          <span class="swatch swatch-hatched" />
          <span title={START_UP}>{t("Start-up")}</span>
        </li>
      )}
    </ul>
  );
}
