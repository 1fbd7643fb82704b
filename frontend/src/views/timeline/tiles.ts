/** Tiles of a timeline: fetched as they are looked at, kept in memory up to a limit. */

import { type ApiError, getBuffer, isAbort, type Params, toApiError } from "../../api/client";
import { lengthOf, type Span } from "../../lib/timeline";

/** What a lane shows of one stretch of the grid, in order of start. Times in ns after its start. */
export interface Tile {
  readonly start: Float64Array;
  readonly duration: Float64Array;
  readonly busy: Float64Array;
  readonly count: Int32Array;
  readonly label: Int32Array;
  readonly row: Int32Array;
}

/** A tile in its place. */
export interface Placed {
  readonly tile: Tile;
  /** Start of the tile, and of what is drawn of it, and the end of that. */
  readonly base: number;
  readonly low: number;
  readonly high: number;
  /** Length of a bin: events as long as that are in every tile that they reach into. */
  readonly bin: number;
}

interface Kept {
  readonly tile: Tile;
  readonly bytes: number;
}

/** Addresses must stay below the 4 KB that servers take. */
const MOST_LANES = 40;
const MOST_REQUESTS = 4;
const MOST_BYTES = 48 * 2 ** 20;
const ITEM_BYTES = 36;
/** What a kept tile costs besides its items. */
const TILE_BYTES = 900;
/** The widest tiles show all of the time in about this many. */
const WIDEST_TILES = 4;
const RETRY_MS = 2_000;

/** Lanes that the server finds when they are first looked at; no other lane waits for them. */
const SLOW = "path.";

interface Wish {
  readonly shift: number;
  readonly number: number;
  readonly keys: string[];
}

export type TileUrl = (params: Params) => string;

/** The shift of the grid whose bins are about a pixel wide, never wider. */
export function shiftOf(span: Span, width: number): number {
  return Math.max(0, Math.floor(Math.log2(Math.max(lengthOf(span) / Math.max(width, 1), 1))));
}

/** Columns of each lane from a reply; `count` lanes were asked for. */
export function readTiles(data: ArrayBuffer, count: number): Tile[] {
  const size = new DataView(data).getUint32(0, true);
  const head: unknown = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, size)));
  const counts = (head as { counts: number[] }).counts;
  const total = counts.reduce((sum, one) => sum + one, 0);
  const offset = 4 + size;
  if (counts.length !== count || data.byteLength !== offset + total * ITEM_BYTES) {
    throw new RangeError("The tile is cut off.");
  }
  const wide = (column: number) => new Float64Array(data, offset + 8 * total * column, total);
  const narrow = (column: number) =>
    new Int32Array(data, offset + 24 * total + 4 * total * column, total);
  let low = 0;
  return counts.map((items) => {
    const high = low + items;
    // Copies: a part of the reply would keep all of it.
    const tile = {
      start: wide(0).slice(low, high),
      duration: wide(1).slice(low, high),
      busy: wide(2).slice(low, high),
      count: narrow(0).slice(low, high),
      label: narrow(1).slice(low, high),
      row: narrow(2).slice(low, high),
    };
    low = high;
    return tile;
  });
}

export class TileStore {
  /** In order of last use: the first ones go first. */
  private readonly kept = new Map<string, Kept>();
  private readonly waiting = new Map<string, AbortController>();
  private wishes: Wish[] = [];
  private bytes = 0;
  /** What was asked for last, if all of it was there. */
  private answered = "";
  private failedAt = Number.NEGATIVE_INFINITY;
  private isClosed = false;
  readonly widest: number;
  private readonly all: Span;
  private readonly url: TileUrl;
  private readonly bins: number;
  private readonly onChange: () => void;
  private readonly onError: (error: ApiError) => void;

  constructor(
    url: TileUrl,
    bins: number,
    all: Span,
    onChange: () => void,
    onError: (error: ApiError) => void,
  ) {
    [this.url, this.bins, this.onChange, this.onError] = [url, bins, onChange, onError];
    this.all = all;
    this.widest = Math.ceil(Math.log2(Math.max(lengthOf(all) / (WIDEST_TILES * bins), 1)));
  }

  /** Whether tiles are on their way. */
  get isLoading(): boolean {
    return this.waiting.size > 0 || this.wishes.length > 0;
  }

  get memoryBytes(): number {
    return this.bytes;
  }

  close(): void {
    this.isClosed = true;
    this.wishes = [];
    for (const controller of this.waiting.values()) controller.abort();
    this.waiting.clear();
    this.kept.clear();
  }

  /** What is known of a lane in a window, at the width of a pixel or coarser. */
  placed(key: string, span: Span, width: number): Placed[] {
    const shift = Math.min(shiftOf(span, width), this.widest);
    const length = this.bins * 2 ** shift;
    const found: Placed[] = [];
    const first = Math.max(Math.floor(span.low / length), 0);
    for (let number = first; number * length < span.high; number += 1) {
      const one = this.nearest(key, shift, number);
      if (one !== null) found.push(one);
    }
    return found;
  }

  /** The tile, or the part of a wider one that lies in its place. */
  private nearest(key: string, shift: number, number: number): Placed | null {
    const length = this.bins * 2 ** shift;
    for (let wider = shift; wider <= this.widest; wider += 1) {
      const place = Math.floor(number / 2 ** (wider - shift));
      const tile = this.use(nameOf(key, wider, place));
      if (tile !== null) {
        const base = place * this.bins * 2 ** wider;
        return { tile, base, low: number * length, high: (number + 1) * length, bin: 2 ** wider };
      }
    }
    return null;
  }

  private use(name: string): Tile | null {
    const found = this.kept.get(name);
    if (found === undefined) return null;
    this.kept.delete(name);
    this.kept.set(name, found);
    return found.tile;
  }

  /** Asks for what a window needs of some lanes; what was wished before and not begun is dropped. */
  want(
    rows: readonly string[],
    span: Span,
    width: number,
    /** Lanes of which all of the time is shown at its coarsest as well. */
    mapped: readonly string[] = [],
  ): void {
    if (this.isClosed) return;
    const shift = Math.min(shiftOf(span, width), this.widest);
    const length = this.bins * 2 ** shift;
    const tiles = `${shift} ${Math.floor(span.low / length)} ${Math.floor((span.high - 1) / length)}`;
    const question = `${tiles} ${rows.length} ${rows[0]} ${rows.at(-1)}`;
    if (question === this.answered) return;
    this.wishes = [];
    const keys = [...new Set(rows)];
    // First what shows something at once, then what is sharp, then the sides.
    for (const some of [keys.filter((key) => !isSlow(key)), keys.filter(isSlow)]) {
      this.wish(some, span, this.widest, 0);
      this.wish(some, span, shift, 0);
      this.wish(some, span, shift, 1);
    }
    this.wish(mapped, this.all, this.widest, 0);
    this.answered = this.isLoading ? "" : question;
    this.send();
  }

  private wish(keys: readonly string[], span: Span, shift: number, more: number): void {
    const length = this.bins * 2 ** shift;
    const first = Math.max(Math.floor(span.low / length) - more, 0);
    const last = Math.floor((span.high - 1) / length) + more;
    for (let number = first; number <= last; number += 1) {
      const missing = keys.filter((key) => {
        const name = nameOf(key, shift, number);
        return !this.kept.has(name) && !this.waiting.has(name);
      });
      for (let low = 0; low < missing.length; low += MOST_LANES) {
        this.wishes.push({ shift, number, keys: missing.slice(low, low + MOST_LANES) });
      }
    }
  }

  private send(): void {
    const isResting = performance.now() - this.failedAt < RETRY_MS;
    while (!isResting && new Set(this.waiting.values()).size < MOST_REQUESTS) {
      // One at a time of those that take long: the others then are quick.
      const isSlowWaiting = [...this.waiting.keys()].some(isSlow);
      const next = this.wishes.findIndex(({ keys }) => !(isSlowWaiting && keys.some(isSlow)));
      const [wish] = next < 0 ? [] : this.wishes.splice(next, 1);
      if (wish === undefined) return;
      const keys = wish.keys.filter((key) => {
        const name = nameOf(key, wish.shift, wish.number);
        return !this.kept.has(name) && !this.waiting.has(name);
      });
      if (keys.length > 0) void this.fetch({ ...wish, keys });
    }
  }

  private async fetch({ shift, number, keys }: Wish): Promise<void> {
    const controller = new AbortController();
    const names = keys.map((key) => nameOf(key, shift, number));
    for (const name of names) this.waiting.set(name, controller);
    try {
      const url = this.url({ lanes: keys.join(","), shift, number });
      const tiles = readTiles(await getBuffer(url, controller.signal), keys.length);
      if (this.isClosed) return;
      tiles.forEach((tile, index) => {
        this.keep(names[index] ?? "", tile);
      });
    } catch (failure) {
      if (!isAbort(failure) && !this.isClosed) {
        this.failedAt = performance.now();
        this.onError(toApiError(failure));
      }
    }
    for (const name of names) this.waiting.delete(name);
    if (this.isClosed) return;
    this.send();
    this.onChange();
  }

  private keep(name: string, tile: Tile): void {
    const bytes = TILE_BYTES + tile.start.length * ITEM_BYTES;
    this.bytes -= this.kept.get(name)?.bytes ?? 0;
    this.kept.set(name, { tile, bytes });
    this.bytes += bytes;
    for (const [old, { bytes: size }] of this.kept) {
      if (this.bytes <= MOST_BYTES) return;
      this.kept.delete(old);
      this.bytes -= size;
    }
  }
}

function isSlow(key: string): boolean {
  return key.startsWith(SLOW);
}

function nameOf(key: string, shift: number, number: number): string {
  return `${key} ${shift} ${number}`;
}
