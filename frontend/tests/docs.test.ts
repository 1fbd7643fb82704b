import { marked, type Token } from "marked";
import { describe, expect, it } from "vitest";
import { loadPage } from "../src/frame/DocsDialog";
import { VIEWS } from "../src/views/registry";

const PAGES: Readonly<Record<string, string>> = import.meta.glob("../../docs/views/**/*.md", {
  query: "?raw",
  import: "default",
  eager: true,
});

function blocksOf(page: string): readonly Token[] {
  const tokens = marked.lexer(PAGES[`../../docs/views/${page}.md`] ?? "");
  return tokens.filter(({ type }) => type !== "space");
}

/** What a translation has to keep: kinds of blocks, rows of tables, items of lists. */
function shapeOf(block: Token): string {
  if (block.type === "table") return `table of ${block.rows.length} × ${block.header.length}`;
  return block.type === "list" ? `list of ${block.items.length}` : block.type;
}

describe("the documentation", () => {
  it.each(VIEWS.map((view) => view.id))("says the same of %s in Chinese", async (id) => {
    expect(blocksOf(`zh/${id}`).map(shapeOf)).toEqual(blocksOf(id).map(shapeOf));
    expect(await loadPage(id, "zh")).toMatch(/[\u4e00-\u9fff]/);
  });

  it.each(VIEWS.map((view) => view.id))("has a page for the view %s", async (id) => {
    const [title, ...blocks] = blocksOf(id);
    expect(title).toMatchObject({ type: "heading", depth: 1 });
    const tables = blocks.filter(({ type }) => type === "table");
    expect(tables.length).toBeGreaterThan(0);
    // A row with fewer cells than the header is filled with empty ones.
    const cells = tables.flatMap((table) => (table.type === "table" ? table.rows.flat() : []));
    expect(cells.filter(({ text }) => text === "")).toEqual([]);
    const html = await loadPage(id);
    expect(html).toContain("<table>");
    expect(html).not.toMatch(/<img|<h1|<p><\/p>|href="(?!https:)/);
  });
});
