/** Colors of events: by use of Tensor Cores, or by the type of their op. */

import type { Timeline } from "../../api/types";

export type ColorMode = "tensor_cores" | "op_type";

export interface Palette {
  /** By label: red, green and blue as the low bytes of a little-endian number. */
  readonly color: Uint32Array;
  /** By label: whether text on it is dark. */
  readonly isDark: Uint8Array;
  readonly text: string;
  readonly mutedText: string;
  readonly border: string;
  readonly accent: string;
  readonly selection: string;
  /** Of what the CPU does, of advice, and of time in which a GPU runs nothing. */
  readonly cpu: number;
  readonly mark: number;
  readonly idle: number;
  readonly gpu: number;
}

const CATEGORY_COLORS = [
  ...["--part-tc", "--part-non_tc", "--part-communication", "--part-memory"],
  ...["--part-memory", "--part-graph"],
];
/** Categories whose color the type of the op replaces. */
const MOST_TYPED = 1;
const LIGHT_TEXT_BELOW = 0.42;

type Rgb = readonly [number, number, number];

/** "#1b7f3b" as parts. */
function readHex(text: string): Rgb {
  const value = Number.parseInt(text.trim().slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

function fromHsl(hue: number, saturation: number, lightness: number): Rgb {
  const part = (offset: number) => {
    const place = (offset + hue / 30) % 12;
    const chroma = saturation * Math.min(lightness, 1 - lightness);
    return Math.round(255 * (lightness - chroma * Math.max(-1, Math.min(place - 3, 9 - place, 1))));
  };
  return [part(0), part(8), part(4)];
}

/** Names have a hue of their own, the same in every picture. */
export function hueOf(name: string): number {
  let hash = 2_166_136_261;
  for (let index = 0; index < name.length; index += 1) {
    hash = Math.imul(hash ^ name.charCodeAt(index), 16_777_619);
  }
  // Neighboring hashes are far apart on the circle.
  return (((hash >>> 0) % 1_009) * 137.508) % 360;
}

function luminance([red, green, blue]: Rgb): number {
  return (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
}

function code([red, green, blue]: Rgb): number {
  return red | (green << 8) | (blue << 16);
}

/** The colors of the theme that the page has now. */
export function readPalette(timeline: Timeline, mode: ColorMode, isDarkTheme: boolean): Palette {
  const style = getComputedStyle(document.documentElement);
  const css = (name: string) => style.getPropertyValue(name).trim();
  const categories = CATEGORY_COLORS.map((name) => readHex(css(name)));
  // What the CPU does has one neutral color, which is stronger the deeper it is nested.
  const cpu: Rgb = isDarkTheme ? [113, 128, 150] : [132, 146, 166];
  const { category, op_type } = timeline.labels;
  const colorOf = (label: number): Rgb => {
    const kind = category[label] ?? -1;
    const type = timeline.names[op_type[label] ?? -1];
    const known = categories[kind];
    const isTyped = mode === "op_type" && kind <= MOST_TYPED && type !== undefined;
    if (isTyped) return fromHsl(hueOf(type), 0.55, isDarkTheme ? 0.48 : 0.6);
    return known ?? cpu;
  };
  const colors = category.map((_, label) => colorOf(label));
  return {
    color: Uint32Array.from(colors, code),
    isDark: Uint8Array.from(colors, (rgb) =>
      (rgb === cpu ? !isDarkTheme : luminance(rgb) > LIGHT_TEXT_BELOW) ? 1 : 0,
    ),
    text: css("--text"),
    mutedText: css("--text-3"),
    border: css("--border"),
    accent: css("--accent"),
    selection: css("--accent-soft"),
    cpu: code(cpu),
    mark: code(readHex(css("--accent"))),
    gpu: code(readHex(css("--text-2"))),
    idle: code(readHex(css("--part-outside"))),
  };
}
