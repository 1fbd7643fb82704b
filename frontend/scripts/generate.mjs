/**
 * Writes what the page takes from elsewhere: out of docs/openapi.json `src/api/types.ts` (replies)
 * and `src/table/declared.ts` (columns of tables), out of aggregator/texts/zh.po `src/i18n/zh.ts`.
 */

import { existsSync, readFileSync, writeFileSync } from "node:fs";

const root = new URL("../", import.meta.url);
const source = new URL("../docs/openapi.json", root);
if (!existsSync(source)) {
  console.error(
    "docs/openapi.json is missing: `make frontend` writes it (scripts/write_openapi.py)",
  );
  process.exit(1);
}
const document = JSON.parse(readFileSync(source, "utf8"));
const schemas = Object.entries(document.components.schemas);
const NOTE = "// Generated from docs/openapi.json by `npm run generate`.\n";

const PLAIN = { integer: "number", number: "number", string: "string", boolean: "boolean" };

function typeOf(schema) {
  if (schema.$ref !== undefined) return schema.$ref.split("/").at(-1);
  if (schema.oneOf !== undefined) return schema.oneOf.map(typeOf).join(" | ");
  if (schema.enum !== undefined)
    return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const types = [schema.type].flat();
  return types.map((type) => oneType(type, schema)).join(" | ");
}

function oneType(type, schema) {
  if (type === "array") return `readonly ${parenthesized(typeOf(schema.items))}[]`;
  if (type === "object") {
    const { additionalProperties: values } = schema;
    const isTyped = typeof values === "object" && Object.keys(values).length > 0;
    return `Readonly<Record<string, ${isTyped ? typeOf(values) : "unknown"}>>`;
  }
  return PLAIN[type] ?? type;
}

function parenthesized(type) {
  return type.includes(" ") ? `(${type})` : type;
}

function comment(text, indent) {
  return text === undefined || text === "" ? "" : `${indent}/** ${text} */\n`;
}

function declaration([name, schema]) {
  const required = new Set(schema.required);
  const fields = Object.entries(schema.properties).map(([key, field]) => {
    const mark = required.has(key) ? "" : "?";
    return `${comment(field.description, "  ")}  readonly ${key}${mark}: ${typeOf(field)};\n`;
  });
  return `${comment(schema.description, "")}export interface ${name} {\n${fields.join("")}}\n`;
}

const UNITS = { _ns: "time", _pct: "share", _bytes: "memory" };
const CALL_SITES = new Set(["stack_trace", "source_line"]);

/** How the cells of a column look. */
function formatOf({ key, kind, is_integer: isInteger }) {
  if (kind === "boolean") return "flag";
  if (kind === "identifier") return isInteger ? "number" : "text";
  if (kind === "number") {
    const unit = Object.keys(UNITS).find((suffix) => key.endsWith(suffix));
    return UNITS[unit] ?? (isInteger ? "count" : "rate");
  }
  if (CALL_SITES.has(key)) return "trace";
  return kind === "text" && /(^|_)name$/.test(key) ? "name" : kind;
}

function column(item) {
  const texts = [
    ["title", item.title],
    ["hint", item.hint],
    ["whenNull", item.when_null],
  ].flatMap(([key, text]) => (text === "" ? [] : [`${key}: t(${JSON.stringify(text)})`]));
  const parts = [
    `key: ${JSON.stringify(item.key)}`,
    `format: ${JSON.stringify(formatOf(item))}`,
    ...texts,
    ...(item.unit === "" ? [] : [`unit: ${JSON.stringify(item.unit)}`]),
    ...(item.is_hidden ? ["isHiddenAtFirst: true"] : []),
    ...(item.is_sum ? ["isSum: true"] : []),
  ];
  return `  { ${parts.join(", ")} },\n`;
}

function table([name, schema]) {
  const columns = schema["x-columns"];
  if (columns === undefined) return "";
  const constant = name
    .replace(/Row$/, "")
    .replace(/(?<=.)([A-Z])/g, "_$1")
    .toUpperCase();
  return `\nexport const ${constant}: readonly DeclaredColumn<${name}>[] = [\n${columns
    .map(column)
    .join("")}];\n`;
}

/** Writes a file, unless it has this text: what is built from it stays up to date. */
function write(path, text) {
  const url = new URL(path, root);
  if (!existsSync(url) || readFileSync(url, "utf8") !== text) writeFileSync(url, text);
}

const CATALOG = "aggregator/texts/zh.po";

/** The page's sentences that a translator saw as they are now; the page shows the others in English. */
function translations(catalog) {
  const texts = {};
  for (const entry of catalog.split("\n\n")) {
    const found = entry.match(/^msgctxt "page"\nmsgid ((?:".*"\n)+)msgstr ((?:".*"\n?)+)/m);
    if (found === null || /^#,.*\bfuzzy\b/m.test(entry)) continue;
    const [english, text] = found.slice(1).map(unquoted);
    if (text !== "") texts[english] = text;
  }
  return texts;
}

/** Joins the quoted lines of an entry; its escapes are those of JSON. */
function unquoted(lines) {
  const parts = lines.trim().split("\n");
  return parts.map((line) => JSON.parse(line)).join("");
}

const rows = schemas
  .filter(([, schema]) => schema["x-columns"] !== undefined)
  .map(([name]) => name);
write("src/api/types.ts", `${NOTE}\n${schemas.map(declaration).join("\n")}`);
write(
  "src/table/declared.ts",
  `${NOTE}\nimport type {\n${rows.map((name) => `  ${name},\n`).join("")}} from "../api/types";\n` +
    `import { t } from "../i18n";\nimport type { DeclaredColumn } from "./columns";\n` +
    schemas.map(table).join(""),
);
const texts = translations(readFileSync(new URL(`../${CATALOG}`, root), "utf8"));
write(
  "src/i18n/zh.ts",
  `// Generated from ${CATALOG} by \`npm run generate\`.\n\n` +
    `export const zh: Readonly<Record<string, string>> = ${JSON.stringify(texts, null, 2)};\n`,
);
