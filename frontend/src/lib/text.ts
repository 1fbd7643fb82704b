/** Text that is too long for its place. */

const MAX_TAIL = 22;
const PLAIN_TAIL = 12;
/** A head shorter than this is not worth cutting. */
const MIN_HEAD = 6;

/** Length of the last whole path segments that fit; 0 when not even one does. */
function pathTail(name: string): number {
  let tail = 0;
  for (let slash = name.lastIndexOf("/"); slash > 0; slash = name.lastIndexOf("/", slash - 1)) {
    if (name.length - slash > MAX_TAIL) break;
    tail = name.length - slash;
  }
  return tail;
}

/**
 * Cuts a name in two so that the middle can be hidden and both ends stay readable.
 *
 * A path keeps its last segments whole as far as they are short; other names keep their last
 * characters.
 */
export function splitMiddle(name: string): readonly [head: string, tail: string] {
  const tailLength = pathTail(name) || PLAIN_TAIL;
  if (name.length < tailLength + MIN_HEAD) return [name, ""];
  return [name.slice(0, -tailLength), name.slice(-tailLength)];
}

/** A stack trace as its frames, one per line, outermost first. */
export function stackFrames(trace: string): string[] {
  return trace
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

/** A sentence with arrows and minus signs in place of what a terminal shows. */
export function typeset(text: string): string {
  return text.replaceAll("->", "→").replace(/(^|[\s(])-(?=\d)/g, "$1−");
}

export interface TextPart {
  readonly text: string;
  readonly href: string | null;
}

const URL_PATTERN = /https?:\/\/[^\s<>"']+[^\s<>"'.,;:!?)\]]/g;

/** Splits a sentence into plain text and http(s) links. Nothing else ever becomes a link. */
export function splitLinks(text: string): TextPart[] {
  const parts: TextPart[] = [];
  let end = 0;
  for (const match of text.matchAll(URL_PATTERN)) {
    if (match.index > end) parts.push({ text: text.slice(end, match.index), href: null });
    parts.push({ text: match[0], href: match[0] });
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push({ text: text.slice(end), href: null });
  return parts;
}

/** One line of tab-separated values: tabs and line ends inside a cell become spaces. */
export function tsvLine(cells: readonly unknown[]): string {
  return cells
    .map((cell) => (cell === null || cell === undefined ? "" : String(cell)))
    .map((cell) => cell.replace(/[\t\r\n]+/g, " "))
    .join("\t");
}

/** "0–3, 7, 9–12". */
export function rangesText(numbers: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const number of numbers.toSorted((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] + 1 === number) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges
    .map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`))
    .join(", ");
}
