/** The lanes of a timeline: canvas, axis, pointer and keys. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Lane, LaneItems, Timeline, TimelineItems } from "../../api/types";
import { t } from "../../i18n";
import { itemAt, lengthOf, moved, type Span, ticks, zoomed } from "../../lib/timeline";
import { durationText, formatInt } from "../../lib/units";
import { useTheme } from "../../state/theme";
import { ErrorNote } from "../../ui/states";
import { draw, HEAD, ROW, type Row, readColors } from "./draw";
import { useItems } from "./useItems";

const AXIS = 24;
const MOST_HEIGHT = 620;
const LEAST_DRAG = 4;
const TICK_WIDTH = 120;
const ZOOM = 1.25;
const STEP = 0.2;

/** An event that was clicked. */
export interface Chosen {
  readonly name: string;
  readonly opId: string | null;
  readonly count: number;
  readonly startNs: number;
  readonly durationNs: number;
  readonly busyNs: number;
}

interface LaneChartProps {
  readonly timeline: Timeline;
  readonly all: Span;
  readonly span: Span;
  readonly range: Span | null;
  readonly search: string;
  readonly onSpan: (span: Span) => void;
  readonly onRange: (range: Span | null) => void;
  readonly onEvent: (event: Chosen | null) => void;
}

/** Rows with their places: a heading for each group, then its lanes. */
function layOut(
  lanes: readonly Lane[],
  folded: ReadonlySet<string>,
): { rows: Row[]; height: number } {
  const rows: Row[] = [];
  let y = 0;
  let group: string | null = null;
  for (const lane of lanes) {
    if (lane.group !== group) {
      group = lane.group;
      if (group !== "") {
        rows.push({ kind: "group", title: group, y });
        y += HEAD;
      }
    }
    if (folded.has(lane.group)) continue;
    rows.push({ kind: "lane", key: lane.key, type: lane.title, y });
    y += ROW;
  }
  return { rows, height: y };
}

function useSize(): readonly [(element: HTMLElement | null) => void, number, HTMLElement | null] {
  const [element, setElement] = useState<HTMLElement | null>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (element === null) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, [element]);
  return [setElement, width, element];
}

export function LaneChart(props: LaneChartProps): JSX.Element {
  const { timeline, all, span, range, search, onSpan } = props;
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const { rows, height } = useMemo(() => layOut(timeline.lanes, folded), [timeline, folded]);
  const [measure, width, plot] = useSize();
  const [top, setTop] = useState(0);
  const shownHeight = Math.min(height, MOST_HEIGHT);
  const keys = useMemo(
    () =>
      rows.flatMap((row) =>
        row.kind === "lane" && row.y + ROW > top - shownHeight && row.y < top + 2 * shownHeight
          ? [row.key]
          : [],
      ),
    [rows, top, shownHeight],
  );
  const { items, error, isLoading } = useItems(keys, span, width, all);
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (context == null || width === 0) return;
    const frame = requestAnimationFrame(() => {
      const scale = window.devicePixelRatio || 1;
      context.canvas.width = Math.round(width * scale);
      context.canvas.height = Math.round(shownHeight * scale);
      context.setTransform(scale, 0, 0, scale, 0, 0);
      const colors = readColors(theme === "dark");
      draw({
        context,
        width,
        height: shownHeight,
        top,
        rows,
        items,
        span,
        chosen: range,
        search,
        colors,
      });
    });
    return () => cancelAnimationFrame(frame);
  }, [items, span, range, search, rows, top, width, shownHeight, theme]);

  const pointer = usePointer(props, { plot, width, top, rows, items });
  const onKeyDown = (event: KeyboardEvent) => {
    const next = keyed(event, span, all);
    if (next === null) return;
    event.preventDefault();
    event.stopPropagation();
    onSpan(next);
  };
  useWheel(plot, span, all, width, onSpan);
  const fold = (group: string) => {
    const next = new Set(folded);
    if (!next.delete(group)) next.add(group);
    setFolded(next);
  };
  if (error !== null) return <ErrorNote error={error} />;
  return (
    <div class="timeline" aria-busy={isLoading}>
      <Axis span={span} width={width} origin={all.low} />
      <div
        class="timeline-scroll"
        style={{ height: `${shownHeight}px` }}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <div class="timeline-labels" style={{ height: `${height}px` }}>
          {rows.map((row) => (
            <Label
              key={`${row.kind}${row.y}`}
              row={row}
              isFolded={row.kind === "group" && folded.has(row.title)}
              onFold={fold}
            />
          ))}
        </div>
        <div
          ref={measure}
          class="timeline-plot"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: keys zoom and move the chart
          tabIndex={0}
          role="img"
          aria-label={t(
            "Timeline from {low} to {high}; the tables below have its totals and longest events",
            {
              low: durationText(span.low - all.low),
              high: durationText(span.high - all.low),
            },
          )}
          onKeyDown={onKeyDown}
          {...pointer.handlers}
        >
          <canvas ref={canvas} style={{ width: `${width}px`, height: `${shownHeight}px` }} />
        </div>
      </div>
      {pointer.tip}
    </div>
  );
}

function Label(props: {
  row: Row;
  isFolded: boolean;
  onFold: (group: string) => void;
}): JSX.Element {
  const { row, isFolded, onFold } = props;
  if (row.kind === "lane") {
    return (
      <span class="timeline-label" style={{ top: `${row.y}px` }} title={row.type}>
        {row.type}
      </span>
    );
  }
  return (
    <button
      type="button"
      class="timeline-group"
      style={{ top: `${row.y}px` }}
      aria-expanded={!isFolded}
      title={row.title}
      onClick={() => onFold(row.title)}
    >
      {row.title}
    </button>
  );
}

function Axis({ span, width, origin }: { span: Span; width: number; origin: number }): JSX.Element {
  const marks =
    width === 0
      ? []
      : ticks({ low: span.low - origin, high: span.high - origin }, width / TICK_WIDTH);
  const scale = width / lengthOf(span);
  return (
    <svg class="timeline-axis" width={width} height={AXIS} aria-hidden="true">
      {marks.map((time) => {
        const x = (time + origin - span.low) * scale;
        return (
          <g key={time}>
            <line x1={x} x2={x} y1={AXIS - 6} y2={AXIS} />
            <text x={x + 3} y={AXIS - 8}>
              {durationText(time)}
            </text>
          </g>
        );
      })}
    </svg>
  );
}

/** The window after a key; null: the key is for something else. */
function keyed(event: KeyboardEvent, span: Span, all: Span): Span | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  switch (event.key.toLowerCase()) {
    case "w":
    case "+":
      return zoomed(span, 1 / ZOOM, 0.5, all);
    case "s":
    case "-":
      return zoomed(span, ZOOM, 0.5, all);
    case "a":
    case "arrowleft":
      return moved(span, -STEP, all);
    case "d":
    case "arrowright":
      return moved(span, STEP, all);
    case "f":
      return all;
    default:
      return null;
  }
}

/** Zooms with Ctrl and moves with Shift; the wheel alone scrolls the lanes. */
function useWheel(
  plot: HTMLElement | null,
  span: Span,
  all: Span,
  width: number,
  onSpan: (span: Span) => void,
): void {
  useEffect(() => {
    if (plot === null) return;
    const onWheel = (event: WheelEvent) => {
      if (event.ctrlKey) {
        const share = (event.clientX - plot.getBoundingClientRect().left) / Math.max(width, 1);
        onSpan(zoomed(span, ZOOM ** (event.deltaY / 100), share, all));
      } else if (event.shiftKey || event.deltaX !== 0) {
        onSpan(moved(span, (event.deltaX || event.deltaY) / Math.max(width, 1), all));
      } else return;
      event.preventDefault();
    };
    // Preact adds passive listeners, which cannot keep the page from zooming.
    plot.addEventListener("wheel", onWheel, { passive: false });
    return () => plot.removeEventListener("wheel", onWheel);
  }, [plot, span, all, width, onSpan]);
}

interface Place {
  readonly plot: HTMLElement | null;
  readonly width: number;
  readonly top: number;
  readonly rows: readonly Row[];
  readonly items: TimelineItems | null;
}

function usePointer(props: LaneChartProps, place: Place) {
  const { span, onRange, onEvent } = props;
  const [from, setFrom] = useState<number | null>(null);
  const [tip, setTip] = useState<{ x: number; y: number; event: Chosen } | null>(null);
  const inPlot = (event: PointerEvent) => {
    const box = place.plot?.getBoundingClientRect();
    return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
  };
  const timeAt = (x: number) => span.low + (x / Math.max(place.width, 1)) * lengthOf(span);
  const found = (x: number, y: number) =>
    eventAt(place, y, timeAt(x), lengthOf(span) / Math.max(place.width, 1));
  const handlers = {
    onPointerDown: (event: PointerEvent) => {
      if (event.button !== 0) return;
      place.plot?.setPointerCapture(event.pointerId);
      setFrom(inPlot(event).x);
      setTip(null);
    },
    onPointerMove: (event: PointerEvent) => {
      const { x, y } = inPlot(event);
      if (from !== null) {
        if (Math.abs(x - from) >= LEAST_DRAG) onRange(rangeOf(timeAt(from), timeAt(x), props.all));
        return;
      }
      const over = found(x, y);
      setTip(over === null ? null : { x, y, event: over });
    },
    onPointerUp: (event: PointerEvent) => {
      const { x, y } = inPlot(event);
      if (from !== null && Math.abs(x - from) < LEAST_DRAG) {
        onRange(null);
        onEvent(found(x, y));
      }
      setFrom(null);
    },
    onPointerLeave: () => setTip(null),
    onPointerCancel: () => setFrom(null),
  };
  const shown = tip && (
    <div
      class="timeline-tip"
      aria-hidden="true"
      style={{
        left: `${Math.min(tip.x, Math.max(place.width - 280, 0))}px`,
        top: `${tip.y - place.top + 44}px`,
      }}
    >
      <strong>{tip.event.name}</strong>
      <span>
        {tip.event.count > 1
          ? t("{count} events, {time} in all", {
              count: formatInt(tip.event.count),
              time: durationText(tip.event.busyNs),
            })
          : durationText(tip.event.durationNs)}
      </span>
    </div>
  );
  return { handlers, tip: shown };
}

function rangeOf(first: number, second: number, all: Span): Span {
  return {
    low: Math.max(Math.min(first, second), all.low),
    high: Math.min(Math.max(first, second), all.high),
  };
}

function eventAt(place: Place, y: number, time: number, slack: number): Chosen | null {
  const { items, rows } = place;
  if (items === null) return null;
  const row = rows.find((one) => one.kind === "lane" && y >= one.y && y < one.y + ROW);
  const lane: LaneItems | undefined =
    row?.kind === "lane" ? items.lanes.find((one) => one.key === row.key) : undefined;
  if (lane === undefined) return null;
  const index = itemAt(lane, time - items.start_ns, slack);
  if (index < 0) return null;
  const op = lane.op[index] ?? -1;
  return {
    name: items.names[lane.name[index] ?? 0] ?? "",
    opId: op < 0 ? null : (items.names[op] ?? null),
    count: lane.count[index] ?? 1,
    startNs: items.start_ns + (lane.offset_ns[index] ?? 0),
    durationNs: lane.duration_ns[index] ?? 0,
    busyNs: lane.busy_ns[index] ?? 0,
  };
}
