/** The lanes of a timeline: labels, canvas, pointer and keys. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type ApiError, isAbort } from "../../api/client";
import type { Timeline } from "../../api/types";
import { t } from "../../i18n";
import {
  lengthOf,
  moments,
  moved,
  type Selection,
  type Span,
  selectionText,
  zoomed,
} from "../../lib/timeline";
import { durationText, formatInt, formatPct } from "../../lib/units";
import { scopedUrl, useScope } from "../../state/scope";
import { useTheme } from "../../state/theme";
import { Button } from "../../ui/Button";
import { ErrorNote } from "../../ui/states";
import { type ColorMode, readPalette } from "./colors";
import { type LaneRow, type Layout, type Row, rowsBetween, shortTitle, valueText } from "./layout";
import { drawMap, Minimap, placeWindow } from "./Minimap";
import { AXIS, type Found, idleKeys, Scene, type Spot } from "./scene";
import { TileStore } from "./tiles";

/** Height of the lanes: about half of the window, so that what is chosen is seen below. */
const LEAST_HEIGHT = 300;
const SHARE_OF_WINDOW = 0.55;
const LEAST_DRAG = 4;
const ZOOM = 1.25;
const STEP = 0.2;
/** The rest of the page follows when the window has come to rest. */
const REST_MS = 250;
const ROOM = 300;

interface LaneChartProps {
  readonly timeline: Timeline;
  readonly layout: Layout;
  /** Mean length of a step; null: unknown. */
  readonly stepNs: number | null;
  readonly all: Span;
  readonly span: Span;
  readonly range: Span | null;
  readonly mode: ColorMode;
  readonly selection: Selection | null;
  readonly chosen: Spot | null;
  readonly related: readonly Spot[];
  readonly folded: ReadonlySet<string>;
  /** How far the lanes are scrolled, in pixels, as the address says. */
  readonly scrolled: number;
  readonly onFold: (group: string) => void;
  readonly onScrolled: (top: number) => void;
  readonly onSpan: (span: Span) => void;
  readonly onRange: (range: Span | null) => void;
  readonly onEvent: (event: Found | null) => void;
}

/** The element, its width, and how far it is scrolled. */
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

interface Stores {
  readonly tiles: TileStore | null;
  readonly hits: TileStore | null;
  readonly error: ApiError | null;
}

/** The tiles of all events, and those of the selected ones. */
function useStores(
  timeline: Timeline,
  all: Span,
  selection: Selection | null,
  onChange: () => void,
): Stores {
  const scope = useScope();
  const [error, setError] = useState<ApiError | null>(null);
  const [tiles, setTiles] = useState<TileStore | null>(null);
  const [hits, setHits] = useState<TileStore | null>(null);
  const text = selection === null ? "" : selectionText(selection);
  useEffect(() => {
    const url = (params: object) =>
      scopedUrl(scope, "timeline/tiles/", { ...params, version: timeline.version });
    const store = new TileStore(url, timeline.tile_bins, all, onChange, setError);
    setTiles(store);
    setError(null);
    return () => store.close();
  }, [scope, timeline, all, onChange]);
  useEffect(() => {
    if (text === "") return;
    const wanted = Object.fromEntries(new URLSearchParams(text));
    const url = (params: object) =>
      scopedUrl(scope, "timeline/tiles/", { ...params, ...wanted, version: timeline.version });
    const store = new TileStore(url, timeline.tile_bins, all, onChange, (failure) => {
      if (!isAbort(failure)) setError(failure);
    });
    setHits(store);
    return () => {
      store.close();
      setHits(null);
    };
  }, [scope, timeline, all, text, onChange]);
  return { tiles, hits, error };
}

export function LaneChart(props: LaneChartProps) {
  const { timeline, all, span, range, mode, selection, chosen, related, folded, onSpan } = props;
  const { layout } = props;
  const [measure, width, plot] = useSize();
  const [top, setTop] = useState(props.scrolled);
  const room = Math.max(window.innerHeight * SHARE_OF_WINDOW, LEAST_HEIGHT);
  const height = Math.min(layout.height, Math.round(room));
  const theme = useTheme();
  const canvas = useRef<HTMLCanvasElement>(null);
  const axis = useRef<HTMLCanvasElement>(null);
  const scene = useRef<Scene | null>(null);
  const [isLoading, setLoading] = useState(true);
  const stores = useRef<Stores>({ tiles: null, hits: null, error: null });
  const onChange = useRef(() => scene.current?.redraw()).current;
  const map = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const origin = useRef<HTMLSpanElement>(null);
  const mapped = useRef("");
  const onDrawn = useRef<() => void>(() => undefined);
  onDrawn.current = () => {
    const { tiles, hits } = stores.current;
    setLoading((tiles?.isLoading ?? true) || (hits?.isLoading ?? false));
    const drawn = scene.current;
    if (drawn === null) return;
    if (frame.current !== null) placeWindow(frame.current, drawn.span, all);
    if (origin.current !== null) origin.current.textContent = drawn.marks.origin;
    // The line of the whole run changes only with the tiles.
    const state = `${tiles?.memoryBytes} ${width} ${theme}`;
    if (tiles === null || map.current === null || mapped.current === state) return;
    mapped.current = state;
    const color = getComputedStyle(map.current).color;
    drawMap(map.current, tiles, idleKeys(timeline), all, color);
  };
  stores.current = useStores(timeline, all, selection, onChange);
  const { tiles, hits, error } = stores.current;

  const rest = useRest(onSpan);
  // biome-ignore lint/correctness/useExhaustiveDependencies: one scene for the canvas
  useEffect(() => {
    if (canvas.current === null || axis.current === null) return;
    scene.current = new Scene(canvas.current, axis.current, span, rest, () => onDrawn.current());
    return () => scene.current?.close();
  }, []);
  useEffect(() => {
    const goal = scene.current?.goal;
    if (goal !== undefined && (goal.low !== span.low || goal.high !== span.high)) {
      scene.current?.moveTo(span, true);
    }
  }, [span]);
  useLayoutEffect(() => {
    scene.current?.resize(width, height, top);
  }, [width, height, top]);
  useEffect(() => {
    if (tiles === null) return;
    const palette = readPalette(timeline, mode, theme === "dark");
    scene.current?.show({ timeline, all, layout, palette, tiles, hits, range, chosen, related });
  }, [timeline, all, layout, tiles, hits, range, chosen, related, mode, theme]);
  const onScroll = useScrolled(plot, props, setTop);
  useScrollTo(plot, layout.rows, chosen?.lane ?? null, props.scrolled);

  const ends = moments([span.low, span.high]);
  const pointer = usePointer(props, { plot, width, top, scene });
  const onKeyDown = (event: KeyboardEvent) => {
    if (scene.current === null || !followKey(event, scene.current, layout.rows, props)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  useWheel(plot, scene, all, width);
  if (error !== null) return <ErrorNote error={error} />;
  return (
    <div class="timeline" aria-busy={isLoading}>
      <Minimap
        canvas={map}
        frame={frame}
        all={all}
        goal={() => scene.current?.goal ?? span}
        onMove={(next) => scene.current?.moveTo(next, false)}
      />
      <div class="timeline-axis" aria-hidden="true">
        <span ref={origin} class="timeline-origin" />
        <canvas ref={axis} style={{ width: `${width}px`, height: `${AXIS}px` }} />
      </div>
      <div
        class="timeline-scroll"
        style={{ height: `${height}px` }}
        onScroll={(event) => onScroll(event.currentTarget.scrollTop)}
      >
        <div class="timeline-labels" style={{ height: `${layout.height}px` }}>
          {rowsBetween(layout.rows, top - ROOM, top + height + ROOM).map((row) => (
            <Label
              key={`${row.kind}${row.y}`}
              row={row}
              isFolded={row.kind === "group" && folded.has(row.group)}
              onFold={props.onFold}
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
            "Timeline from {low} to {high}; the tables below have its totals and all events",
            { low: ends.text(span.low), high: ends.text(span.high) },
          )}
          aria-keyshortcuts="W S A D F M , ."
          onKeyDown={onKeyDown}
          {...pointer.handlers}
        >
          <canvas ref={canvas} style={{ width: `${width}px`, height: `${height}px` }} />
        </div>
      </div>
      {pointer.tip}
    </div>
  );
}

/** Reports to the page what is shown when it has come to rest. */
function useRest<Shown>(onRest: (shown: Shown) => void): (shown: Shown) => void {
  const timer = useRef(0);
  const latest = useRef(onRest);
  latest.current = onRest;
  useEffect(() => () => window.clearTimeout(timer.current), []);
  return (shown) => {
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => latest.current(shown), REST_MS);
  };
}

/** Scrolls to where the address says, and reports where the lanes have come to rest. */
function useScrolled(
  plot: HTMLElement | null,
  { scrolled, onScrolled }: LaneChartProps,
  setTop: (top: number) => void,
): (top: number) => void {
  const reported = useRef<number | null>(null);
  const report = useRest((top: number) => {
    reported.current = top;
    onScrolled(top);
  });
  useLayoutEffect(() => {
    if (plot?.parentElement == null || scrolled === reported.current) return;
    reported.current = scrolled;
    plot.parentElement.scrollTop = scrolled;
  }, [plot, scrolled]);
  return (top) => {
    setTop(top);
    report(Math.round(top));
  };
}

/** Scrolls the lane of a chosen event into view, but not that of a link that says what is shown. */
function useScrollTo(
  plot: HTMLElement | null,
  rows: readonly Row[],
  lane: string | null,
  scrolled: number,
): void {
  const known = useRef(scrolled > 0 ? lane : null);
  useEffect(() => {
    const scroll = plot?.parentElement;
    const row = rows.find((one) => one.kind === "lane" && one.key === lane);
    if (scroll == null || row === undefined || lane === known.current) return;
    known.current = null;
    const { scrollTop, clientHeight } = scroll;
    if (row.y < scrollTop || row.y + row.height > scrollTop + clientHeight) {
      scroll.scrollTop = row.y - clientHeight / 2;
    }
  }, [plot, rows, lane]);
}

function Label(props: { row: Row; isFolded: boolean; onFold: (group: string) => void }) {
  const { row, isFolded, onFold } = props;
  if (row.kind === "lane") {
    return (
      <span class="timeline-label" style={{ top: `${row.y}px` }} title={row.title}>
        {row.title}
        {row.scale !== null && (
          <>
            <br />
            {t("at most {value}", { value: valueText(row.scale, row.scale.most) })}
          </>
        )}
      </span>
    );
  }
  return (
    <Button
      class="timeline-group"
      style={{ top: `${row.y}px` }}
      aria-expanded={!isFolded}
      title={row.title}
      onClick={() => onFold(row.group)}
    >
      {shortTitle(row.title)}
    </Button>
  );
}

/** Does what a key says; false: it is for something else. */
function followKey(
  event: KeyboardEvent,
  scene: Scene,
  rows: readonly Row[],
  props: LaneChartProps,
): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const { all, chosen, onRange, onEvent } = props;
  const window_ = windowAfter(event.key.toLowerCase(), scene.goal, props);
  if (window_ !== null) {
    scene.moveTo(window_, true);
    return true;
  }
  switch (event.key) {
    case "m":
      if (chosen !== null) {
        onRange({ low: chosen.start, high: chosen.start + Math.max(chosen.duration, 1) });
      }
      return chosen !== null;
    case ".":
    case ",":
      stepTo(nextOf(scene, rows, chosen, event.key === "."), scene, all, onEvent);
      return true;
    case "ArrowDown":
    case "ArrowUp":
      stepTo(
        inOtherLane(scene, rows, chosen, event.key === "ArrowDown" ? 1 : -1),
        scene,
        all,
        onEvent,
      );
      return true;
    case "Escape":
      onEvent(null);
      onRange(null);
      return true;
    default:
      return false;
  }
}

/** The window after a key; null: the key does not move it. */
function windowAfter(key: string, span: Span, props: LaneChartProps): Span | null {
  const { all, chosen } = props;
  switch (key) {
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
    case "f": {
      if (chosen === null) return all;
      const length = Math.max(chosen.duration, 1);
      return zoomed({ low: chosen.start, high: chosen.start + length }, 3, 0.5, all);
    }
    default:
      return null;
  }
}

function laneRows(rows: readonly Row[]): LaneRow[] {
  return rows.flatMap((row) => (row.kind === "lane" ? [row] : []));
}

function middleOf(spot: Spot): number {
  return spot.start + spot.duration / 2;
}

/** The next event of the lane of the chosen one; without one, the first of any lane. */
function nextOf(
  scene: Scene,
  rows: readonly Row[],
  chosen: Spot | null,
  isNext: boolean,
): Found | null {
  if (chosen !== null) return scene.neighbor(chosen.lane, chosen.start, isNext);
  for (const row of laneRows(rows)) {
    const found =
      row.laneKind === "work" ? scene.neighbor(row.key, scene.span.low - 1, true) : null;
    if (found !== null) return found;
  }
  return null;
}

/** The event at the same time in the next lane below or above that has one. */
function inOtherLane(
  scene: Scene,
  rows: readonly Row[],
  chosen: Spot | null,
  step: number,
): Found | null {
  if (chosen === null) return nextOf(scene, rows, null, true);
  const lanes = laneRows(rows);
  const time = middleOf(chosen);
  for (
    let index = lanes.findIndex((row) => row.key === chosen.lane) + step;
    index >= 0 && index < lanes.length;
    index += step
  ) {
    const key = lanes[index]?.key ?? "";
    const near = [scene.neighbor(key, time, false), scene.neighbor(key, time, true)];
    const found = near
      .filter((one): one is Found => one !== null)
      .sort((a, b) => Math.abs(middleOf(a) - time) - Math.abs(middleOf(b) - time))[0];
    if (found !== undefined) return found;
  }
  return null;
}

/** Chooses an event and moves the window if it lies outside. */
function stepTo(
  found: Found | null,
  scene: Scene,
  all: Span,
  onEvent: (event: Found | null) => void,
): void {
  if (found === null) return;
  const { low, high } = scene.goal;
  if (found.start < low || found.start > high) {
    scene.moveTo(moved(scene.goal, (found.start - (low + high) / 2) / (high - low), all), true);
  }
  onEvent(found);
}

interface SceneRef {
  readonly current: Scene | null;
}

/** Zooms with Ctrl and moves with Shift; the wheel alone scrolls the lanes. */
function useWheel(plot: HTMLElement | null, scene: SceneRef, all: Span, width: number): void {
  useEffect(() => {
    if (plot === null) return;
    const onWheel = (event: WheelEvent) => {
      if (scene.current === null) return;
      const span = scene.current.goal;
      if (event.ctrlKey) {
        const share = (event.clientX - plot.getBoundingClientRect().left) / Math.max(width, 1);
        scene.current.moveTo(zoomed(span, ZOOM ** (event.deltaY / 100), share, all), false);
      } else if (event.shiftKey || event.deltaX !== 0) {
        const by = (event.deltaX || event.deltaY) / Math.max(width, 1);
        scene.current.moveTo(moved(span, by, all), false);
      } else return;
      event.preventDefault();
    };
    // Preact adds passive listeners, which cannot keep the page from zooming.
    plot.addEventListener("wheel", onWheel, { passive: false });
    return () => plot.removeEventListener("wheel", onWheel);
  }, [plot, scene, all, width]);
}

interface Place {
  readonly plot: HTMLElement | null;
  readonly width: number;
  readonly top: number;
  readonly scene: SceneRef;
}

type Drag = { readonly kind: "range" | "move"; readonly x: number; readonly span: Span };

function usePointer(props: LaneChartProps, place: Place) {
  const { all, stepNs, onRange, onEvent } = props;
  const drag = useRef<Drag | null>(null);
  const [tip, setTip] = useState<{ x: number; y: number; event: Found } | null>(null);
  const { scene, width, top } = place;
  const inPlot = (event: PointerEvent) => {
    const box = place.plot?.getBoundingClientRect();
    return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
  };
  const timeAt = (x: number, { low, high }: Span) => low + (x / Math.max(width, 1)) * (high - low);
  const found = (x: number, y: number) => scene.current?.itemAt(x, y - top) ?? null;
  const handlers = {
    onPointerDown: (event: PointerEvent) => {
      if (event.button > 1 || scene.current === null) return;
      place.plot?.setPointerCapture(event.pointerId);
      const kind = event.button === 1 || event.shiftKey ? "move" : "range";
      drag.current = { kind, x: inPlot(event).x, span: scene.current.goal };
      setTip(null);
    },
    onPointerMove: (event: PointerEvent) => {
      const { x, y } = inPlot(event);
      const from = drag.current;
      if (from === null) {
        const over = found(x, y);
        setTip(over === null ? null : { x, y, event: over });
      } else if (from.kind === "move") {
        scene.current?.moveTo(moved(from.span, (from.x - x) / Math.max(width, 1), all), false);
      } else if (Math.abs(x - from.x) >= LEAST_DRAG) {
        onRange(rangeOf(timeAt(from.x, from.span), timeAt(x, from.span), all));
      }
    },
    onPointerUp: (event: PointerEvent) => {
      const { x, y } = inPlot(event);
      const from = drag.current;
      if (from !== null && Math.abs(x - from.x) < LEAST_DRAG) {
        onRange(null);
        onEvent(found(x, y));
      }
      drag.current = null;
    },
    onPointerLeave: () => setTip(null),
    onPointerCancel: () => {
      drag.current = null;
    },
  };
  const shown = tip && (
    <div
      class="timeline-tip"
      aria-hidden="true"
      style={{
        left: `${Math.min(tip.x, Math.max(width - 280, 0))}px`,
        top: `${tip.y - top + 44}px`,
      }}
    >
      {tip.event.count === 1 && <strong>{tip.event.name}</strong>}
      {tip.event.value !== null && (
        <span>
          {tip.event.count > 1
            ? t("{count} samples, at most {value}", {
                count: formatInt(tip.event.count),
                value: tip.event.value,
              })
            : tip.event.value}
        </span>
      )}
      <span>
        {tip.event.count > 1 && tip.event.value === null
          ? t("{count} events, {time} total; most of it: {name}", {
              count: formatInt(tip.event.count),
              time: durationText(tip.event.busy),
              name: tip.event.name,
            })
          : durationText(tip.event.duration)}
        {stepNs !== null &&
          tip.event.value === null &&
          ` · ${t("{share} % of a step", { share: formatPct((100 * tip.event.busy) / stepNs) })}`}
      </span>
      {tip.event.opId !== null && <span>{tip.event.opId}</span>}
      <span class="timeline-hint">{t("click to pin")}</span>
    </div>
  );
  return { handlers, tip: shown };
}

function rangeOf(first: number, second: number, all: Span): Span {
  const span = { low: Math.min(first, second), high: Math.max(first, second) };
  return lengthOf(span) < 1
    ? { low: span.low, high: span.low + 1 }
    : { low: Math.max(span.low, all.low), high: Math.min(span.high, all.high) };
}
