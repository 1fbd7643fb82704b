/** One row of pixels of a lane: which event has most of each pixel, and how much of it is busy. */

import { lengthOf, type Span } from "../../lib/timeline";
import type { Placed } from "./tiles";

type OnWide = (label: number, left: number, right: number) => void;

const GAP = 0.5;
const WIDE = 3;
const EDGE = 1e-6;
const TILE_BINS = 512;

/** The right end of an event with a gap behind it, if there is room for one; at most `last`. */
function withGap(left: number, right: number, last: number): number {
  return Math.min(right - left > WIDE ? right - GAP : right, last);
}

/** Index of the first start after a time. */
function firstFrom(start: Float64Array, time: number): number {
  let low = 0;
  let high = start.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((start[middle] as number) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The pixels of a lane; the arrays are used again for the next one. */
export class PixelRow {
  /** Share of each pixel in which something ran; may exceed 1 by rounding. */
  readonly busy: Float32Array;
  /** Label with the largest share; -1: none. */
  readonly label: Int32Array;
  readonly width: number;
  private readonly share: Float32Array;

  constructor(width: number) {
    this.width = width;
    this.busy = new Float32Array(width);
    this.label = new Int32Array(width);
    this.share = new Float32Array(width);
  }

  clear(): void {
    this.busy.fill(0);
    this.share.fill(0);
    this.label.fill(-1);
  }

  /**
   * Adds the items of a lane.
   *
   * `least` is what an item has of a pixel at least, so that none vanishes. Events of at least
   * `textWidth` pixels are handed to `onWide`.
   */
  add(placed: readonly Placed[], span: Span, least: number, textWidth: number, onWide: OnWide) {
    for (const one of placed) this.addTile(one, span, least, textWidth, onWide);
  }

  /** Adds samples: of each pixel `busy` is the highest, as a share of `most`. */
  addSamples(placed: readonly Placed[], span: Span, most: number): void {
    const scale = this.width / lengthOf(span);
    for (const { tile, base, low, high } of placed) {
      const shift = (base - span.low) * scale;
      const first = Math.max((low - span.low) * scale, 0);
      const last = Math.min((high - span.low) * scale, this.width);
      const end = firstFrom(tile.start, (last - shift) / scale);
      for (let index = 0; index < end; index += 1) {
        const left = shift + (tile.start[index] as number) * scale;
        const right = left + (tile.duration[index] as number) * scale;
        if (right < first) continue;
        const share = Math.min((tile.row[index] as number) / Math.max(most, 1), 1);
        this.raise(
          Math.max(left, first),
          Math.min(right, last),
          share,
          tile.label[index] as number,
        );
      }
    }
  }

  private raise(left: number, right: number, share: number, label: number): void {
    const end = Math.min(Math.ceil(right) - 1, this.width - 1);
    for (let pixel = Math.floor(left); pixel <= Math.max(end, Math.floor(left)); pixel += 1) {
      if (pixel >= this.width) return;
      this.label[pixel] = label;
      if (share > (this.busy[pixel] as number)) this.busy[pixel] = share;
    }
  }

  private addTile(
    { tile, base, low, high, bin }: Placed,
    span: Span,
    least: number,
    textWidth: number,
    onWide: OnWide,
  ): void {
    const scale = this.width / lengthOf(span);
    // Of a wider tile only the part in its place is drawn.
    const isPart = high - low < bin * TILE_BINS;
    const shift = (base - span.low) * scale;
    const [first, last] = [(low - span.low) * scale, (high - span.low) * scale];
    const { start, duration, busy, count, label } = tile;
    const end = firstFrom(start, (Math.min(this.width, last) - shift) / scale);
    const write = (index: number, left: number, right: number) => {
      const from = Math.max(left, 0);
      const isHere = from >= first - EDGE && from < last && right - from >= textWidth;
      if (isHere) onWide(label[index] as number, from, Math.min(right, this.width));
    };
    for (let index = 0; index < end; index += 1) {
      const length = duration[index] as number;
      const left = shift + (start[index] as number) * scale;
      const right = left + length * scale;
      if (right < 0 || (isPart && right < first)) continue;
      const isEvent = count[index] === 1;
      if (isEvent && right - left >= textWidth) write(index, left, right);
      const density = isEvent ? 1 : Math.min((busy[index] as number) / Math.max(length, 1), 1);
      // An event as long as a bin is in each tile that it reaches into.
      const isCut = isPart || (isEvent && length >= bin);
      const code = label[index] as number;
      if (!isCut) this.fill(left, right, density, code, least);
      else this.fill(Math.max(left, first), withGap(left, right, last), density, code, least);
    }
  }

  private fill(left: number, right: number, density: number, label: number, least: number): void {
    const begin = Math.max(Math.floor(left), 0);
    const end = Math.min(Math.floor(right), this.width - 1);
    for (let pixel = begin; pixel <= end; pixel += 1) {
      let share = (Math.min(right, pixel + 1) - Math.max(left, pixel)) * density;
      if (share < least && (pixel === begin || right > pixel)) share = least;
      if (share <= 0) continue;
      this.busy[pixel] = (this.busy[pixel] as number) + share;
      if (share > (this.share[pixel] as number)) {
        this.share[pixel] = share;
        this.label[pixel] = label;
      }
    }
  }
}

/** The item of a lane at a time: its tile and place; `slack` is half a pixel in ns. */
export function itemAt(
  placed: readonly Placed[],
  time: number,
  slack: number,
): { readonly placed: Placed; readonly index: number } | null {
  let best: { placed: Placed; index: number; off: number } | null = null;
  for (const one of placed) {
    if (time < one.low - slack || time > one.high + slack) continue;
    const at = time - one.base;
    const { start, duration } = one.tile;
    const behind = firstFrom(start, at + slack);
    for (let index = behind - 1; index >= Math.max(behind - 4, 0); index -= 1) {
      const begin = start[index] as number;
      const off = Math.max(begin - at, at - begin - (duration[index] as number), 0);
      if (off <= slack && (best === null || off < best.off)) best = { placed: one, index, off };
    }
  }
  return best;
}
