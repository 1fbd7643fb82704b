/**
 * Writes what the page takes from the API's declarations, out of docs/openapi.json:
 * `src/api/types.ts` (replies) and `src/table/declared.ts` (columns of tables).
 *
 * With --check nothing is written; the exit status is 1 if a file is out of date.
 */

import { readFileSync, writeFileSync } from "node:fs";

const CHECK = process.argv.includes("--check");
const root = new URL("../", import.meta.url);
const document = JSON.parse(readFileSync(new URL("../docs/openapi.json", root), "utf8"));
const schemas = Object.entries(document.components.schemas);
const NOTE = "// Generated from docs/openapi.json by `npm run generate`: do not edit.\n";

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

function write(path, text) {
  const url = new URL(path, root);
  let before = "";
  try {
    before = readFileSync(url, "utf8");
  } catch {}
  if (before === text) return;
  if (!CHECK) {
    writeFileSync(url, text);
    return;
  }
  console.error(`${path} is out of date: run \`make docs\``);
  process.exitCode = 1;
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
