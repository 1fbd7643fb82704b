/** Draws the lanes of a timeline on a canvas. */

import type { LaneItems, TimelineItems } from "../../api/types";
import { lengthOf, type Span } from "../../lib/timeline";

export const ROW = 18;
export const HEAD = 24;
/** Width of a letter at 11 px; text that does not fit is cut. */
const LETTER = 6;
const LEAST_TEXT = 26;
const FEWEST_PIXELS = 0.7;

export type Row =
  | { readonly kind: "group"; readonly title: string; readonly y: number }
  | { readonly kind: "lane"; readonly key: string; readonly type: string; readonly y: number };

export interface Colors {
  readonly categories: readonly string[];
  readonly text: string;
  readonly border: string;
  readonly accent: string;
  readonly selection: string;
  readonly isDark: boolean;
}

const CATEGORY_COLORS = [
  ...["--part-tc", "--part-non_tc", "--part-communication", "--part-memory"],
  ...["--part-memory", "--part-graph"],
];

export function readColors(isDark: boolean): Colors {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(name).trim();
  return {
    categories: CATEGORY_COLORS.map(color),
    text: color("--text"),
    border: color("--border"),
    accent: color("--accent"),
    selection: color("--accent-soft"),
    isDark,
  };
}

const hues = new Map<string, number>();

/** Names have a color of their own, the same in every picture. */
function hueOf(name: string): number {
  const known = hues.get(name);
  if (known !== undefined) return known;
  let hash = 7;
  for (let index = 0; index < name.length; index += 1) {
    hash = (hash * 31 + name.charCodeAt(index)) % 360;
  }
  hues.set(name, hash);
  return hash;
}

function colorOf(colors: Colors, category: number, name: string): string {
  const known = colors.categories[category];
  if (known !== undefined) return known;
  return `hsl(${hueOf(name)} ${colors.isDark ? "28% 34%" : "45% 78%"})`;
}

/** Text on dark parts is white, in both themes. */
function textColor(colors: Colors, category: number): string {
  if (category === 1) return "#0b0d10";
  return category >= 0 ? "#ffffff" : colors.text;
}

export interface Picture {
  readonly context: CanvasRenderingContext2D;
  readonly width: number;
  readonly height: number;
  readonly top: number;
  readonly rows: readonly Row[];
  readonly items: TimelineItems | null;
  readonly span: Span;
  readonly chosen: Span | null;
  readonly search: string;
  readonly colors: Colors;
}

export function draw(picture: Picture): void {
  const { context, width, height, top, rows, items, colors } = picture;
  context.clearRect(0, 0, width, height);
  context.font = "11px ui-monospace, Menlo, Consolas, monospace";
  context.textBaseline = "middle";
  drawChosen(picture);
  const lanes = new Map(items?.lanes.map((lane) => [lane.key, lane]));
  for (const row of rows) {
    const y = row.y - top;
    if (y + HEAD < 0 || y > height) continue;
    if (row.kind === "group") {
      context.fillStyle = colors.border;
      context.fillRect(0, y + HEAD - 1, width, 1);
      continue;
    }
    const lane = lanes.get(row.key);
    if (lane !== undefined && items !== null) drawLane(picture, lane, items, y);
  }
}

function drawChosen({ context, chosen, span, width, height, colors }: Picture): void {
  if (chosen === null) return;
  const scale = width / lengthOf(span);
  const left = (chosen.low - span.low) * scale;
  const right = (chosen.high - span.low) * scale;
  context.fillStyle = colors.selection;
  context.fillRect(left, 0, Math.max(right - left, 1), height);
  context.fillStyle = colors.accent;
  context.fillRect(left, 0, 1, height);
  context.fillRect(right - 1, 0, 1, height);
}

function drawLane(picture: Picture, lane: LaneItems, items: TimelineItems, y: number): void {
  const { width, span } = picture;
  const scale = width / lengthOf(span);
  const shift = (items.start_ns - span.low) * scale;
  for (let index = 0; index < lane.offset_ns.length; index += 1) {
    const left = shift + (lane.offset_ns[index] ?? 0) * scale;
    const duration = lane.duration_ns[index] ?? 0;
    const right = left + Math.max(duration * scale, FEWEST_PIXELS);
    if (left > width) break;
    if (right < 0) continue;
    const count = lane.count[index] ?? 1;
    const x = Math.max(left, 0);
    drawBox(picture, {
      x,
      y,
      width: Math.min(right, width) - x,
      name: items.names[lane.name[index] ?? 0] ?? "",
      category: lane.category[index] ?? -1,
      isRun: count > 1,
      // A run is as dense as the time in it that events take.
      share: count > 1 ? Math.min((lane.busy_ns[index] ?? 0) / Math.max(duration, 1), 1) : 1,
    });
  }
}

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly name: string;
  readonly category: number;
  readonly isRun: boolean;
  readonly share: number;
}

function drawBox({ context, search, colors }: Picture, box: Box): void {
  const { x, y, width, name, category } = box;
  const isFound = search === "" || name.toLowerCase().includes(search);
  context.globalAlpha = (0.35 + 0.65 * box.share) * (isFound ? 1 : 0.18);
  context.fillStyle = colorOf(colors, category, name);
  // A gap between neighbors that have room for one.
  context.fillRect(x, y + 1, width > 3 ? width - 0.5 : width, ROW - 2);
  context.globalAlpha = 1;
  if (width < LEAST_TEXT || box.isRun || !isFound) return;
  const letters = Math.floor((width - 6) / LETTER);
  context.fillStyle = textColor(colors, category);
  const text = name.length > letters ? `${name.slice(0, Math.max(letters - 1, 0))}…` : name;
  context.fillText(text, x + 3, y + ROW / 2 + 0.5);
}
