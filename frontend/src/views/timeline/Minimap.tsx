/** The whole run in one line: how busy its GPUs are, and a window to drag. */

import type { RefObject } from "preact";
import { useRef } from "preact/hooks";
import { lengthOf, type Span, within } from "../../lib/timeline";
import { PixelRow } from "./raster";
import type { Placed, TileStore } from "./tiles";

export const MAP_HEIGHT = 32;

/** Adds what idle time leaves of each pixel; what has not come yet is neither idle nor busy. */
function addBusy(
  busy: Float32Array,
  idle: PixelRow,
  placed: readonly Placed[],
  all: Span,
  weight: number,
): void {
  const perPixel = lengthOf(all) / idle.width;
  for (const { low, high } of placed) {
    const last = Math.min(Math.floor((high - all.low) / perPixel), idle.width);
    for (let x = Math.max(Math.ceil((low - all.low) / perPixel), 0); x < last; x += 1) {
      busy[x] = (busy[x] ?? 0) + (1 - Math.min(idle.busy[x] ?? 0, 1)) * weight;
    }
  }
}

/** Draws the busy time of all GPUs, from the tiles of their idle time that are there. */
export function drawMap(
  canvas: HTMLCanvasElement,
  tiles: TileStore,
  idleKeys: readonly string[],
  all: Span,
  color: string,
): void {
  const scale = window.devicePixelRatio || 1;
  const width = Math.max(Math.round(canvas.clientWidth * scale), 1);
  const height = Math.round(MAP_HEIGHT * scale);
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  if (context === null) return;
  const busy = new Float32Array(width);
  const row = new PixelRow(width);
  for (const key of idleKeys) {
    const placed = tiles.placed(key, all, width);
    if (placed.length === 0) continue;
    row.clear();
    row.add(placed, all, 0, Number.POSITIVE_INFINITY, () => undefined);
    addBusy(busy, row, placed, all, 1 / idleKeys.length);
  }
  context.fillStyle = color;
  for (let x = 0; x < width; x += 1) {
    const share = busy[x] ?? 0;
    // A pixel of the run may hold hundreds of steps: what is not nothing is seen.
    const part = share > 0 ? Math.max(Math.round(share * height), 2) : 0;
    context.fillRect(x, height - part, 1, part);
  }
}

/** Where the window is, in percent of the run. */
export function placeWindow(element: HTMLElement, span: Span, all: Span): void {
  const whole = lengthOf(all);
  element.style.left = `${(100 * (span.low - all.low)) / whole}%`;
  element.style.width = `${(100 * lengthOf(span)) / whole}%`;
}

export function Minimap(props: {
  canvas: RefObject<HTMLCanvasElement | null>;
  frame: RefObject<HTMLDivElement | null>;
  all: Span;
  goal: () => Span;
  onMove: (span: Span) => void;
}) {
  const { canvas, frame, all, goal, onMove } = props;
  const grip = useRef<number | null>(null);
  const timeAt = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return all.low + ((event.clientX - box.left) / Math.max(box.width, 1)) * lengthOf(all);
  };
  const move = (event: PointerEvent) => {
    if (grip.current === null) return;
    const low = timeAt(event) - grip.current;
    onMove(within({ low, high: low + lengthOf(goal()) }, all));
  };
  return (
    <div
      class="timeline-map"
      aria-hidden="true"
      onPointerDown={(event) => {
        (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
        const { low, high } = goal();
        const time = timeAt(event);
        // Outside of the window it jumps to the pointer; inside it keeps its place under it.
        grip.current = time >= low && time <= high ? time - low : (high - low) / 2;
        move(event);
      }}
      onPointerMove={move}
      onPointerUp={() => {
        grip.current = null;
      }}
      onPointerCancel={() => {
        grip.current = null;
      }}
    >
      <canvas ref={canvas} />
      <div ref={frame} class="timeline-map-window" />
    </div>
  );
}
