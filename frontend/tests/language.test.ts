import { type ESTree, parseSync, Visitor, type VisitorObject } from "vite";
import { describe, expect, it, vi } from "vitest";
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

interface Source {
  readonly name: string;
  readonly text: string;
  readonly program: ESTree.Program;
}

function parse([name, text]: readonly [string, string]): Source {
  const { program, errors } = parseSync(name, text);
  if (errors.length > 0) throw new Error(`${name}: ${errors[0]?.message}`);
  return { name, text, program };
}

function visit(source: Source, visitor: VisitorObject): void {
  new Visitor(visitor).visit(source.program);
}

function hasWords(text: string): boolean {
  const bare = text.replace(/\s+/g, " ").trim();
  return /\p{L}{2,}/u.test(bare) && !SAME_EVERYWHERE.has(bare);
}

/** Words of the interface that the catalog never sees: JSX text and attributes that are read. */
function untranslated(source: Source): readonly string[] {
  const found: string[] = [];
  visit(source, {
    JSXText({ value }) {
      if (hasWords(value)) found.push(`${source.name}: ${value.trim()}`);
    },
    JSXAttribute({ name, value, start, end }) {
      if (name.type !== "JSXIdentifier" || !READ_ATTRIBUTES.has(name.name) || value === null)
        return;
      if (hasWords(literalText(value)))
        found.push(`${source.name}: ${source.text.slice(start, end)}`);
    },
  });
  return found;
}

/** The words right inside of an attribute, as a text or in a template: `Search ${noun}`. */
function literalText(value: ESTree.JSXAttributeValue): string {
  if (value.type === "Literal") return String(value.value);
  if (value.type !== "JSXExpressionContainer" || value.expression.type !== "TemplateLiteral")
    return "";
  return value.expression.quasis.map((part) => part.value.cooked ?? "").join(" ");
}

/** Every sentence that is passed to t(). */
function messages(source: Source): readonly string[] {
  const found: string[] = [];
  visit(source, {
    CallExpression({ callee, arguments: [first] }) {
      if (callee.type !== "Identifier" || callee.name !== "t" || first?.type !== "Literal") return;
      if (typeof first.value === "string") found.push(first.value);
    },
  });
  return found;
}

function holes(text: string): readonly string[] {
  return [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "").sort();
}

describe("the catalog", () => {
  const files = Object.entries(SOURCES).map(parse);

  it("is read from the sentences of the interface", () => {
    const used = new Set(files.flatMap(messages));
    expect(Object.keys(zh).filter((message) => used.has(message)).length).toBeGreaterThan(1000);
  });

  it("leaves a sentence in English that it does not have", async () => {
    vi.doMock("../src/i18n/translations", () => ({ translations: { Ops: "算子" } }));
    vi.resetModules();
    const chinese = await import("../src/i18n");
    expect(chinese.t("Ops")).toBe("算子");
    expect(chinese.t("{count} new things", { count: 3 })).toBe("3 new things");
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
