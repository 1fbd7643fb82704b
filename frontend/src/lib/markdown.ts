/** The little of Markdown that our pages use, as data. Nothing of it ever becomes HTML text. */

export type Inline = { readonly kind: "text" | "code" | "strong" | "em"; readonly text: string };

export type Block =
  | { readonly kind: "heading"; readonly level: number; readonly content: readonly Inline[] }
  | { readonly kind: "paragraph"; readonly content: readonly Inline[] }
  | { readonly kind: "list"; readonly items: readonly (readonly Inline[])[] }
  | {
      readonly kind: "table";
      readonly header: readonly (readonly Inline[])[];
      readonly rows: readonly (readonly (readonly Inline[])[])[];
    };

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*/g;

export function inline(text: string): readonly Inline[] {
  const parts: Inline[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) parts.push({ kind: "text", text: text.slice(end, match.index) });
    if (match[1] !== undefined) parts.push({ kind: "code", text: match[1] });
    else if (match[2] !== undefined) parts.push({ kind: "strong", text: match[2] });
    else parts.push({ kind: "em", text: match[3] ?? "" });
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push({ kind: "text", text: text.slice(end) });
  return parts;
}

function cells(line: string): readonly (readonly Inline[])[] {
  return line
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((cell) => inline(cell.trim()));
}

function blockOf(text: string): Block {
  const lines = text.split("\n");
  const first = lines[0] ?? "";
  const heading = /^(#+) (.*)$/.exec(first);
  if (heading !== null) {
    return {
      kind: "heading",
      level: heading[1]?.length ?? 1,
      content: inline(heading[2] ?? ""),
    };
  }
  if (first.startsWith("- ")) {
    return { kind: "list", items: lines.map((line) => inline(line.replace(/^- /, ""))) };
  }
  if (first.startsWith("|")) {
    return { kind: "table", header: cells(first), rows: lines.slice(2).map(cells) };
  }
  return { kind: "paragraph", content: inline(lines.join(" ")) };
}

/** Blocks are parted by empty lines. Pictures are for who reads the files: here is the view itself. */
export function parseMarkdown(text: string): readonly Block[] {
  return text
    .replaceAll("\r\n", "\n")
    .split(/\n{2,}/)
    .map((block) => block.trim())
    .filter((block) => block !== "" && !block.startsWith("!["))
    .map(blockOf);
}
