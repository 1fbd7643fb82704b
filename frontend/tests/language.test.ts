import ts from "typescript";
import { describe, expect, it } from "vitest";
import { fill, pickLanguage, t } from "../src/i18n";
import { zh } from "../src/i18n/zh";

/** Attributes that people read or hear. */
const READ_ATTRIBUTES = new Set(["title", "label", "aria-label", "placeholder", "caption", "alt"]);

/** Names and formulas that are the same in every language. */
const SAME_EVERYWHERE = new Set([
  "DLProf Viewer",
  "dlprofviewer dlprof_dldb.sqlite",
  "/api/v1/schema/",
  "ms",
]);

/** The text of every file of the page but the catalog itself. */
const SOURCES: Readonly<Record<string, string>> = import.meta.glob(
  ["../src/**/*.{ts,tsx}", "!../src/**/*.d.ts", "!../src/i18n/**"],
  { query: "?raw", import: "default", eager: true },
);

function parse([name, text]: readonly [string, string]): ts.SourceFile {
  const kind = name.endsWith("x") ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
  return ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true, kind);
}

function hasWords(text: string): boolean {
  const bare = text.replace(/\s+/g, " ").trim();
  return /\p{L}{2,}/u.test(bare) && !SAME_EVERYWHERE.has(bare);
}

/** Words of the interface that the catalog never sees: JSX text and attributes that are read. */
function untranslated(file: ts.SourceFile): readonly string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isJsxText(node) && hasWords(node.text))
      found.push(`${file.fileName}: ${node.text.trim()}`);
    if (
      ts.isJsxAttribute(node) &&
      READ_ATTRIBUTES.has(node.name.getText()) &&
      node.initializer !== undefined
    ) {
      const text = ts.isStringLiteral(node.initializer)
        ? node.initializer.text
        : literalText(node.initializer);
      if (hasWords(text)) found.push(`${file.fileName}: ${node.getText()}`);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/** The words of a template right inside of an attribute: `Search ${noun}`. */
function literalText(initializer: ts.JsxAttributeValue): string {
  if (!ts.isJsxExpression(initializer) || initializer.expression === undefined) return "";
  const { expression } = initializer;
  if (!ts.isTemplateExpression(expression)) return "";
  return [expression.head, ...expression.templateSpans.map((span) => span.literal)]
    .map((part) => part.text)
    .join(" ");
}

/** Every sentence that is passed to t(). */
function messages(file: ts.SourceFile): readonly string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && node.expression.getText() === "t") {
      const first = node.arguments[0];
      if (first !== undefined && ts.isStringLiteral(first)) found.push(first.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

function holes(text: string): readonly string[] {
  return [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "").sort();
}

describe("the catalog", () => {
  const files = Object.entries(SOURCES).map(parse);

  it("has every sentence of the interface and no other", () => {
    const used = new Set(files.flatMap(messages));
    expect([...used].filter((message) => !(message in zh))).toEqual([]);
    expect(Object.keys(zh).filter((message) => !used.has(message))).toEqual([]);
  });

  it("is asked for every word that is shown or read out", () => {
    expect(files.flatMap(untranslated)).toEqual([]);
  });

  it("keeps the holes of each sentence", () => {
    const wrong = Object.entries(zh).filter(
      ([english, chinese]) => holes(english).join() !== holes(chinese).join(),
    );
    expect(wrong).toEqual([]);
  });

  it("leaves no sentence empty or in English", () => {
    const same = Object.entries(zh).filter(
      ([english, chinese]) =>
        chinese.trim() === "" || (english === chinese && english.includes(" ")),
    );
    expect(same).toEqual([]);
  });
});

describe("the choice of a language", () => {
  it("goes by the address, then by what was chosen, then by the browser", () => {
    expect(pickLanguage("zh", "en", ["en-US"])).toBe("zh");
    expect(pickLanguage(null, "zh", ["en-US"])).toBe("zh");
    expect(pickLanguage(null, null, ["de-DE", "zh-CN", "en"])).toBe("zh");
    expect(pickLanguage(null, null, ["de-DE"])).toBe("en");
    expect(pickLanguage("tlh", null, [])).toBe("en");
  });

  it("is English where there is no browser", () => {
    expect(t("Page {page} of {last}", { page: 1, last: 2 })).toBe("Page 1 of 2");
  });

  it("leaves holes open that have no value", () => {
    expect(fill("{a} of {b}", { a: 1 })).toBe("1 of {b}");
  });
});
