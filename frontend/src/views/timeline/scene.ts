/** What the canvas of a timeline shows: drawn anew in each frame in which something has changed. */

import type { Timeline } from "../../api/types";
import { lengthOf, type Moments, moments, type Span, ticks } from "../../lib/timeline";
import type { Palette } from "./colors";
import { type LaneRow, type Layout, ROW, rowAt, rowsBetween, valueText } from "./layout";
import { itemAt, PixelRow } from "./raster";
import type { TileStore } from "./tiles";

export const AXIS = 24;
const FONT = "11px ui-monospace, Menlo, Consolas, monospace";
/** Width of a letter at 11 px. */
const LETTER = 6.62;
const LEAST_TEXT = 30;
const FEWEST_LETTERS = 3;
const MOST_TEXTS = 700;
const TICK_WIDTH = 120;
/** What an event has of a pixel at least; time in which nothing runs has what it takes. */
const LEAST_SHARE = 0.45;
const PALEST = 0.3;
const DIMMED = 0.22;
const EASE_MS = 110;
/** How strong what the CPU does is drawn: outermost, and more for each level below. */
const OUTERMOST = 0.42;
const DEEPER = 0.16;
/** Width of the stripes of idle time, and how strong they are. */
const HATCH = 5;
const HATCHED = 0.4;
/** How strong the use of a GPU is drawn. */
const USED = 0x9c << 24;

/** An item of a lane that the pointer is over, or that was clicked. */
export interface Found {
  readonly lane: string;
  /** Of its label in the timeline. */
  readonly name: string;
  readonly opId: string | null;
  /** In ns after the first event. */
  readonly start: number;
  readonly duration: number;
  readonly busy: number;
  readonly count: number;
  readonly row: number;
  /** Of a sample, or the highest of several; null: it is none. */
  readonly value: string | null;
}

/** Where something is: a lane and its time. */
export interface Spot {
  readonly lane: string;
  readonly start: number;
  readonly duration: number;
}

export interface Content {
  readonly timeline: Timeline;
  readonly all: Span;
  readonly layout: Layout;
  readonly palette: Palette;
  readonly tiles: TileStore;
  /** Only the events that are selected; null: nothing is. */
  readonly hits: TileStore | null;
  readonly range: Span | null;
  readonly chosen: Spot | null;
  readonly related: readonly Spot[];
}

export class Scene {
  span: Span;
  private target: Span;
  private content: Content | null = null;
  private width = 0;
  private height = 0;
  private top = 0;
  private scale = 1;
  private frame = 0;
  private lastFrame = 0;
  private pixels: PixelRow = new PixelRow(1);
  private image: ImageData | null = null;
  private words: Uint32Array = new Uint32Array(0);
  /** What the axis says now. */
  marks: Moments = moments([]);

  private readonly canvas: HTMLCanvasElement;
  private readonly axis: HTMLCanvasElement;
  private readonly onMove: (span: Span) => void;
  private readonly onDrawn: () => void;

  constructor(
    canvas: HTMLCanvasElement,
    axis: HTMLCanvasElement,
    span: Span,
    onMove: (span: Span) => void,
    onDrawn: () => void,
  ) {
    [this.canvas, this.axis, this.onMove, this.onDrawn] = [canvas, axis, onMove, onDrawn];
    this.span = span;
    this.target = span;
  }

  close(): void {
    cancelAnimationFrame(this.frame);
    this.content = null;
  }

  show(content: Content): void {
    this.content = content;
    this.redraw();
  }

  resize(width: number, height: number, top: number): void {
    const scale = window.devicePixelRatio || 1;
    if (width !== this.width || height !== this.height || scale !== this.scale) {
      [this.width, this.height, this.scale] = [width, height, scale];
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      this.axis.width = Math.round(width * scale);
      this.axis.height = Math.round(AXIS * scale);
      this.pixels = new PixelRow(Math.max(this.canvas.width, 1));
      this.image = null;
    }
    this.top = top;
    this.redraw();
  }

  /** Shows another window: at once, or gliding there. */
  moveTo(span: Span, isGliding: boolean): void {
    this.target = span;
    const isStill = !isGliding || window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (isStill) this.span = span;
    this.onMove(span);
    this.redraw();
  }

  /** Where the window is gliding to. */
  get goal(): Span {
    return this.target;
  }

  redraw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame((time) => {
      this.frame = 0;
      this.glide(time);
      this.draw();
    });
  }

  private glide(time: number): void {
    const passed = Math.min(time - this.lastFrame, 50);
    this.lastFrame = time;
    const { low, high } = this.target;
    const length = lengthOf(this.span);
    const off = Math.abs(low - this.span.low) + Math.abs(high - this.span.high);
    if (off < length / Math.max(this.width * 4, 1)) {
      this.span = this.target;
      return;
    }
    const share = 1 - Math.exp(-passed / (EASE_MS / 3));
    this.span = {
      low: this.span.low + share * (low - this.span.low),
      high: this.span.high + share * (high - this.span.high),
    };
    this.redraw();
  }

  /** The item at a place of the canvas, counted from its top. */
  itemAt(x: number, y: number): Found | null {
    const row = this.content === null ? null : rowAt(this.content.layout.rows, y + this.top);
    return row?.kind === "lane" ? this.itemOf(row, x) : null;
  }

  /** The item of a lane at a place. */
  itemOf(row: LaneRow, x: number): Found | null {
    if (this.content === null) return null;
    const perPixel = lengthOf(this.span) / Math.max(this.width, 1);
    const time = this.span.low + x * perPixel;
    const placed = this.content.tiles.placed(row.key, this.span, this.canvas.width);
    const found = itemAt(placed, time, perPixel);
    return found === null ? null : this.found(row.key, found.placed, found.index);
  }

  /** The item after or before another one of its lane in the window; null: there is none. */
  neighbor(lane: string, start: number, isNext: boolean): Found | null {
    if (this.content === null) return null;
    const placed = this.content.tiles.placed(lane, this.span, this.canvas.width);
    let best: Found | null = null;
    for (const one of placed) {
      for (let index = 0; index < one.tile.start.length; index += 1) {
        const at = one.base + (one.tile.start[index] as number);
        const isBeyond = isNext ? at > start : at < start;
        if (isBeyond && (best === null || Math.abs(at - start) < Math.abs(best.start - start))) {
          best = this.found(lane, one, index);
        }
      }
    }
    return best;
  }

  private found(
    lane: string,
    { tile, base }: { readonly tile: TileArrays; readonly base: number },
    index: number,
  ): Found | null {
    if (this.content === null) return null;
    const { names, labels } = this.content.timeline;
    const label = tile.label[index] as number;
    const op = labels.op[label] ?? -1;
    const row = tile.row[index] as number;
    const scale = this.content.timeline.lanes.find((one) => one.key === lane)?.scale ?? null;
    return {
      lane,
      name: names[labels.name[label] ?? -1] ?? "",
      opId: op < 0 ? null : (names[op] ?? null),
      start: base + (tile.start[index] as number),
      duration: tile.duration[index] as number,
      busy: tile.busy[index] as number,
      count: tile.count[index] as number,
      row,
      value: scale === null ? null : valueText(scale, row),
    };
  }

  private draw(): void {
    const { content, width } = this;
    const context = this.canvas.getContext("2d");
    if (content === null || context === null || width === 0 || this.canvas.height === 0) return;
    this.wish(content);
    const texts = this.paint(content, context);
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    this.drawRange(content, context);
    this.drawTexts(content, context, texts);
    this.drawChosen(content, context);
    this.drawAxis(content);
    this.onDrawn();
  }

  /** Asks for the tiles of the rows shown, and of some around them, unless they are all there. */
  private wish({ layout, tiles, hits, timeline }: Content): void {
    const { top, height, target } = this;
    const rows = [
      ...rowsBetween(layout.rows, top, top + height),
      ...rowsBetween(layout.rows, top - height / 2, top + 1.5 * height),
    ];
    const keys = rows.flatMap((row) =>
      row.kind === "lane"
        ? row.key
        : [...(row.idleKey === null ? [] : [row.idleKey]), ...row.lanes.map((lane) => lane.key)],
    );
    const mapped = idleKeys(timeline);
    for (const store of hits === null ? [tiles] : [tiles, hits]) {
      store.want(keys, target, this.canvas.width, store === tiles ? mapped : []);
    }
  }

  private paint(content: Content, context: CanvasRenderingContext2D): Text[] {
    const { width, height } = this.canvas;
    if (this.image === null) {
      this.image = context.createImageData(width, height);
      this.words = new Uint32Array(this.image.data.buffer);
    }
    this.words.fill(0);
    const texts: Text[] = [];
    for (const row of rowsBetween(content.layout.rows, this.top, this.top + this.height)) {
      const y = row.y - this.top;
      if (row.kind === "group") {
        if (row.idleKey !== null) this.paintUse(content, row.idleKey, y, row.height);
        for (const lane of row.lanes) this.paintLane(content, lane, y + 3, []);
      } else if (row.scale !== null) {
        this.paintCounter(content, row, row.scale.most, y);
      } else {
        this.paintLane(content, row, y, texts);
      }
    }
    context.putImageData(this.image, 0, 0);
    return texts;
  }

  private paintLane(content: Content, row: LaneRow, y: number, texts: Text[]): void {
    const { pixels, span } = this;
    const { hits, tiles, palette } = content;
    const textWidth = LEAST_TEXT * this.scale;
    const write = (label: number, left: number, right: number) => {
      texts.push({ label, left: left / this.scale, right: right / this.scale, y });
    };
    const isIdle = row.laneKind === "idle";
    const isBack = hits !== null && row.laneKind !== "iterations";
    pixels.clear();
    const least = isIdle ? 0 : LEAST_SHARE;
    const placed = tiles.placed(row.key, span, pixels.width);
    pixels.add(placed, span, least, textWidth, isBack || isIdle ? ignored : write);
    if (isIdle) {
      this.fillHatch(y, palette.idle);
      return;
    }
    const color = this.colorOf(row, palette);
    const nested = Math.min(OUTERMOST + DEEPER * row.depth, 1);
    const strength = color === null || row.laneKind === "advice" ? 1 : nested;
    this.fillRow(y, palette, isBack ? DIMMED : strength, color);
    if (!isBack || hits === null) return;
    pixels.clear();
    pixels.add(hits.placed(row.key, span, pixels.width), span, 1, textWidth, write);
    this.fillRow(y, palette, 1, color === null ? null : palette.mark);
  }

  /** The one color of a lane that is no work of a GPU; null: its events have their own. */
  private colorOf({ laneKind }: LaneRow, palette: Palette): number | null {
    if (laneKind === "advice") return palette.mark;
    return laneKind === "work" || laneKind === "path" ? null : palette.cpu;
  }

  /** Time in which a GPU runs nothing: light stripes, as they are read as nothing. */
  private fillHatch(y: number, color: number): void {
    const { pixels, words, scale } = this;
    const first = Math.max(Math.round((y + 1) * scale), 0);
    const last = Math.min(Math.round((y + ROW - 1) * scale), this.canvas.height);
    const stripe = HATCH * scale;
    for (let line = first; line < last; line += 1) {
      for (let x = 0; x < pixels.width; x += 1) {
        const share = pixels.busy[x] as number;
        if (share <= 0 || (x + line) % stripe >= scale) continue;
        const alpha = Math.round(255 * HATCHED * Math.min(share, 1));
        words[line * pixels.width + x] = color | (alpha << 24);
      }
    }
  }

  /** Writes the row of pixels into all lines of a lane but the first and last. */
  private fillRow(y: number, palette: Palette, strength: number, color: number | null): void {
    const { pixels, words, scale } = this;
    const { width } = pixels;
    const first = Math.max(Math.round((y + 1) * scale), 0);
    const last = Math.min(Math.round((y + ROW - 1) * scale), this.canvas.height);
    if (first >= last) return;
    const start = first * width;
    for (let x = 0; x < width; x += 1) {
      const label = pixels.label[x] as number;
      if (label < 0) continue;
      const share = Math.min(pixels.busy[x] as number, 1);
      const alpha = Math.round(255 * strength * (PALEST + (1 - PALEST) * share));
      words[start + x] = (color ?? (palette.color[label] as number)) | (alpha << 24);
    }
    for (let line = first + 1; line < last; line += 1) {
      words.copyWithin(line * width, start, start + width);
    }
  }

  /** The use of a GPU over time: what is left of each pixel by its idle time. */
  private paintUse(content: Content, key: string, y: number, height: number): void {
    const { pixels, span } = this;
    const placed = content.tiles.placed(key, span, pixels.width);
    if (placed.length === 0) return;
    pixels.clear();
    pixels.add(placed, span, 0, Number.POSITIVE_INFINITY, ignored);
    const perPixel = lengthOf(span) / pixels.width;
    const use = content.palette.gpu | USED;
    for (let x = 0; x < pixels.width; x += 1) {
      const time = span.low + (x + 0.5) * perPixel;
      if (time < content.all.low || time > content.all.high) continue;
      this.fillColumn(x, y, height, 1 - Math.min(pixels.busy[x] as number, 1), use);
    }
  }

  /** The samples of a counter: 0 is a line at the bottom; where there are none, nothing is drawn. */
  private paintCounter(content: Content, row: LaneRow, most: number, y: number): void {
    const { pixels, span, scale } = this;
    pixels.clear();
    pixels.addSamples(content.tiles.placed(row.key, span, pixels.width), span, most);
    const least = 1 / ((row.height - 4) * scale);
    for (let x = 0; x < pixels.width; x += 1) {
      const label = pixels.label[x] as number;
      if (label < 0) continue;
      const color = (content.palette.color[label] as number) | (255 << 24);
      this.fillColumn(x, y, row.height, Math.max(pixels.busy[x] as number, least), color);
    }
  }

  /** Fills a share of a column of pixels of a row from below. */
  private fillColumn(x: number, y: number, height: number, share: number, color: number): void {
    const { pixels, words, scale } = this;
    const base = Math.round((y + height - 1) * scale);
    const bottom = Math.min(base, this.canvas.height);
    const top = Math.max(Math.round(base - share * (height - 4) * scale), 0);
    for (let line = top; line < bottom; line += 1) words[line * pixels.width + x] = color;
  }

  private x(time: number): number {
    return ((time - this.span.low) / lengthOf(this.span)) * this.width;
  }

  private drawRange({ range, palette }: Content, context: CanvasRenderingContext2D): void {
    if (range === null) return;
    const [left, right] = [this.x(range.low), this.x(range.high)];
    context.globalCompositeOperation = "destination-over";
    context.fillStyle = palette.selection;
    context.fillRect(left, 0, Math.max(right - left, 1), this.height);
    context.globalCompositeOperation = "source-over";
    context.fillStyle = palette.accent;
    context.fillRect(left, 0, 1, this.height);
    context.fillRect(right - 1, 0, 1, this.height);
  }

  private drawTexts(content: Content, context: CanvasRenderingContext2D, texts: Text[]): void {
    const { palette, timeline } = content;
    context.font = FONT;
    context.textBaseline = "middle";
    texts.sort((a, b) => b.right - b.left - (a.right - a.left));
    for (const { label, left, right, y } of texts.slice(0, MOST_TEXTS)) {
      const name = timeline.names[timeline.labels.name[label] ?? -1] ?? "";
      const letters = Math.floor((right - left - 6) / LETTER);
      if (letters < FEWEST_LETTERS) continue;
      context.fillStyle = palette.isDark[label] === 1 ? "#0b0d10" : "#ffffff";
      context.fillText(shortened(pathEnd(name, letters), letters), left + 3, y + 9.5);
    }
    context.fillStyle = palette.border;
    for (const row of rowsBetween(content.layout.rows, this.top, this.top + this.height)) {
      if (row.kind === "group") {
        context.fillRect(0, row.y - this.top + row.height - 1, this.width, 1);
      }
    }
  }

  /** A frame around the chosen event, and arrows to those that it belongs to. */
  private drawChosen(content: Content, context: CanvasRenderingContext2D): void {
    const { chosen, related, palette } = content;
    const from = chosen === null ? null : this.boxOf(content, chosen);
    if (from === null) return;
    context.strokeStyle = palette.text;
    context.lineWidth = 2;
    context.strokeRect(from.left - 1, from.y, from.right - from.left + 2, from.height);
    context.strokeStyle = palette.accent;
    context.fillStyle = palette.accent;
    context.lineWidth = 1.5;
    for (const spot of related) {
      const to = this.boxOf(content, spot);
      if (to === null) continue;
      context.strokeRect(to.left - 0.5, to.y + 0.5, to.right - to.left + 1, ROW - 1);
      arrow(context, from, to);
    }
  }

  private boxOf({ layout }: Content, spot: Spot): Box | null {
    const row = layout.rows.find((one) => one.kind === "lane" && one.key === spot.lane);
    if (row === undefined) return null;
    const [left, right] = [this.x(spot.start), this.x(spot.start + spot.duration)];
    return { left, right: Math.max(right, left + 1), y: row.y - this.top, height: row.height };
  }

  private drawAxis({ palette }: Content): void {
    const context = this.axis.getContext("2d");
    if (context === null) return;
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, AXIS);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "alphabetic";
    const marks = ticks(this.span, this.width / TICK_WIDTH);
    this.marks = moments(marks);
    for (const time of marks) {
      const x = this.x(time);
      context.fillStyle = palette.border;
      context.fillRect(x, AXIS - 7, 1, 7);
      context.fillStyle = palette.mutedText;
      const text = this.marks.text(time);
      const hasRoom = x + 3 + context.measureText(text).width <= this.width;
      context.textAlign = hasRoom ? "left" : "right";
      context.fillText(text, hasRoom ? x + 3 : x - 3, AXIS - 9);
    }
  }
}

interface TileArrays {
  readonly start: Float64Array;
  readonly duration: Float64Array;
  readonly busy: Float64Array;
  readonly count: Int32Array;
  readonly label: Int32Array;
  readonly row: Int32Array;
}

interface Text {
  readonly label: number;
  readonly left: number;
  readonly right: number;
  readonly y: number;
}

interface Box {
  readonly left: number;
  readonly right: number;
  readonly y: number;
  readonly height: number;
}

/** The lanes with the idle time of GPUs, from which their use is drawn. */
export function idleKeys({ lanes }: Timeline): readonly string[] {
  return lanes.filter((lane) => lane.kind === "idle").map((lane) => lane.key);
}

function ignored(): void {
  // No text is written.
}

/** As many of the last parts of a path as there is room for; at least the last one. */
export function pathEnd(name: string, letters: number): string {
  if (!name.startsWith("/") || name.length <= letters) return name;
  const parts = name.split("/").slice(1);
  let end = parts.pop() ?? "";
  for (let next = parts.pop(); next !== undefined; next = parts.pop()) {
    if (end.length + next.length + 1 > letters) break;
    end = `${next}/${end}`;
  }
  return end;
}

/** A name in so many letters: its end says as much as its beginning. */
export function shortened(name: string, letters: number): string {
  if (name.length <= letters) return name;
  if (letters < 8) return name.slice(0, Math.max(letters, 0));
  const tail = Math.floor((letters - 1) * 0.35);
  return `${name.slice(0, letters - 1 - tail)}…${name.slice(name.length - tail)}`;
}

const HEAD_LENGTH = 7;

function arrow(context: CanvasRenderingContext2D, from: Box, to: Box): void {
  const isBelow = to.y > from.y;
  const [startX, endX] = [from.left, to.left];
  const startY = from.y + (isBelow ? ROW : 0);
  const endY = to.y + (isBelow ? 0 : ROW);
  const bend = Math.max(Math.abs(endY - startY) / 2, 20) * (isBelow ? 1 : -1);
  context.beginPath();
  context.moveTo(startX, startY);
  context.bezierCurveTo(startX, startY + bend, endX, endY - bend, endX, endY);
  context.stroke();
  const side = isBelow ? -HEAD_LENGTH : HEAD_LENGTH;
  context.beginPath();
  context.moveTo(endX, endY);
  context.lineTo(endX - 4, endY + side);
  context.lineTo(endX + 4, endY + side);
  context.fill();
}
