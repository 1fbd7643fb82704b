/** Stacked bars of the iterations from the server's figure, with legend, hover card and zoom. */

import type { PlotlyElement } from "plotly.js-basic-dist-min";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import { PARTS } from "../lib/parts";
import { useScoped } from "../state/scope";
import { useTheme } from "../state/theme";
import { Empty, ErrorNote, Skeleton } from "../ui/states";
import { IterationCard } from "./IterationCard";
import {
  type ChartTokens,
  type IndexRange,
  type IterationFigure,
  panned,
  prepareFigure,
  presentParts,
  scaled,
  zoomFromRelayout,
} from "./iterationFigure";
import { loadPlotly } from "./plotly";

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
}

/** What interval 0 holds, whichever op is the key node. */
const START_UP = t(
  "From the start of the program to the end of the first key node: its set-up and, where the key node ends a step, the first step",
);
const OUTSIDE = "outside";
const CONFIG = { displayModeBar: false, responsive: false, doubleClick: "reset" } as const;

function readTokens(): ChartTokens {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return {
    text: read("--text"),
    muted: read("--text-2"),
    grid: read("--border"),
    surface: read("--surface"),
    bound: read("--bound"),
    font: read("--font"),
  };
}

export function IterationChart(props: IterationChartProps): JSX.Element {
  const theme = useTheme();
  const figure = useScoped<IterationFigure>("figures/iteration-summary/", {
    theme,
    view: props.range,
    start: props.zoom?.[0],
    stop: props.zoom?.[1],
  });
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
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
    <div class={`chart ${figure.isStale ? "is-stale" : ""}`}>
      <ChartLegend figure={figure.data} hidden={hidden} onChange={setHidden} />
      <Plot {...props} figure={figure.data} hidden={hidden} theme={theme} />
    </div>
  );
}

interface PlotProps extends IterationChartProps {
  readonly figure: IterationFigure;
  readonly hidden: ReadonlySet<string>;
  readonly theme: string;
}

function Plot(props: PlotProps): JSX.Element {
  const { figure, hidden, bounds, height, theme } = props;
  const isFullHeight = props.isFullHeight ?? false;
  const holder = useRef<HTMLDivElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const start = bounds?.[0] ?? null;
  const stop = bounds?.[1] ?? null;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme decides what readTokens finds
  const prepared = useMemo(
    () =>
      prepareFigure(figure, {
        tokens: readTokens(),
        hidden,
        bounds: start === null || stop === null ? null : [start, stop],
        height,
        isFullHeight,
      }),
    [figure, hidden, start, stop, height, isFullHeight, theme],
  );
  const { onCut } = props;
  useEffect(() => onCut?.(prepared.isCut), [prepared.isCut, onCut]);

  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const element = holder.current;
    if (element === null) return;
    let isGone = false;
    void loadPlotly().then(async (plotly) => {
      if (isGone) return;
      const layout = { ...prepared.layout, width: element.clientWidth };
      const plot = await plotly.react(element, prepared.data, layout, CONFIG);
      if (!isGone) listen(plot, latest, setHovered);
    });
    return () => {
      isGone = true;
    };
  }, [prepared]);
  useResize(holder);

  const bars = figure.layout.meta.bars;
  return (
    // biome-ignore lint/a11y/useSemanticElements: there is no element for an explorable chart
    <div
      class="plot-frame"
      role="group"
      aria-label={t(
        "Bar chart of {count} bars, iterations {first} to {last}. Left and right arrows read the bars.",
        { count: bars.length, first: figure.layout.meta.first, last: figure.layout.meta.last },
      )}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys read its bars
      tabIndex={0}
      onKeyDown={(event) => {
        const zoom = zoomAfterKey(event, props);
        if (zoom !== undefined) {
          event.preventDefault();
          props.onZoom?.(zoom);
          return;
        }
        const next = hoverAfterKey(event.key, hovered, bars.length);
        if (next === undefined) return;
        event.preventDefault();
        setHovered(next);
      }}
      onBlur={() => setHovered(null)}
    >
      <div ref={holder} class="plot" style={{ height: `${height}px` }} />
      {hovered !== null && <IterationCard figure={figure} index={hovered} plot={holder.current} />}
    </div>
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

function listen(
  plot: PlotlyElement,
  latest: { readonly current: PlotProps },
  setHovered: (index: number | null) => void,
): void {
  for (const event of ["plotly_hover", "plotly_unhover", "plotly_relayout"]) {
    plot.removeAllListeners(event);
  }
  plot.on("plotly_hover", ({ points }) => setHovered(points[0]?.pointNumber ?? null));
  plot.on("plotly_unhover", () => setHovered(null));
  plot.on("plotly_relayout", (change) => {
    const { figure, onZoom, limits } = latest.current;
    const zoom = zoomFromRelayout(change, figure.layout.meta, limits ?? undefined);
    if (zoom !== undefined) onZoom?.(zoom);
  });
}

/** Keeps the drawing as wide as its place, which panes at the sides change. */
function useResize(holder: { readonly current: HTMLDivElement | null }): void {
  useEffect(() => {
    const element = holder.current;
    if (element === null) return;
    let width = element.clientWidth;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth === width || element.clientWidth === 0) return;
      width = element.clientWidth;
      void loadPlotly().then((plotly) => {
        if (element.classList.contains("js-plotly-plot")) {
          void plotly.relayout(element, { width });
        }
      });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      void loadPlotly().then((plotly) => plotly.purge(element));
    };
  }, [holder]);
}

const LABELS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(PARTS.map((part) => [part.key, part.label])),
  [OUTSIDE]: t("Outside aggregation"),
};

function ChartLegend({
  figure,
  hidden,
  onChange,
}: {
  figure: IterationFigure;
  hidden: ReadonlySet<string>;
  onChange: (hidden: ReadonlySet<string>) => void;
}): JSX.Element {
  const parts = presentParts(figure);
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
          <button
            type="button"
            class={hidden.has(part) ? "is-off" : ""}
            aria-pressed={!hidden.has(part)}
            onClick={() => toggle(part)}
          >
            <span class={`swatch part-${part}`} />
            {LABELS[part] ?? part}
          </button>
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
