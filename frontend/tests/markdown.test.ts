import { describe, expect, it } from "vitest";
import { loadPage } from "../src/content/docs";
import { inline, parseMarkdown } from "../src/lib/markdown";
import { VIEWS } from "../src/views/registry";

describe("markdown", () => {
  it("separates code, strong and plain text", () => {
    expect(inline("a `b|c` **d** *e*").map((part) => part.kind)).toEqual([
      "text",
      "code",
      "text",
      "strong",
      "text",
      "em",
    ]);
  });

  it("leaves out pictures", () => {
    expect(parseMarkdown("# A\n\n![B](../img/b.png)\n\nc").map((block) => block.kind)).toEqual([
      "heading",
      "paragraph",
    ]);
  });

  it("reads headings, paragraphs, lists and tables", () => {
    const text = "# A\n\nb\nc\n\n- d\n- e\n\n| f | g |\n|---|---|\n| h | i |\n";
    const blocks = parseMarkdown(text);
    expect(blocks.map((block) => block.kind)).toEqual(["heading", "paragraph", "list", "table"]);
    expect(blocks[3]).toMatchObject({ rows: [[[{ text: "h" }], [{ text: "i" }]]] });
  });
});

/** What a translation has to keep: kinds of blocks, rows of tables, items of lists. */
async function shapeOf(id: string, language: "en" | "zh"): Promise<readonly string[]> {
  return parseMarkdown((await loadPage(id, language)) ?? "").map((block) => {
    if (block.kind === "table") return `table of ${block.rows.length} × ${block.header.length}`;
    return block.kind === "list" ? `list of ${block.items.length}` : block.kind;
  });
}

describe("the documentation", () => {
  it.each(VIEWS.map((view) => view.id))("says the same of %s in Chinese", async (id) => {
    expect(await shapeOf(id, "zh")).toEqual(await shapeOf(id, "en"));
    expect(await loadPage(id, "zh")).toMatch(/[\u4e00-\u9fff]/);
  });

  it.each(VIEWS.map((view) => view.id))("has a page for the view %s", async (id) => {
    const page = await loadPage(id);
    const blocks = parseMarkdown(page ?? "");
    expect(blocks[0]).toMatchObject({ kind: "heading", level: 1 });
    expect(blocks.some((block) => block.kind === "table")).toBe(true);
    for (const block of blocks) {
      if (block.kind !== "table") continue;
      for (const row of block.rows) expect(row).toHaveLength(block.header.length);
    }
  });
});
