// Packs the files of the page, which the server sends as they lie here, and fails the build when
// what the first page loads outgrows its budget. Lazy chunks are apart.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BUDGET_BYTES = 120 * 1024;
const ENTRY = "src/main.tsx";
const out = new URL("../../viewer/static/dlprof/", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", out), "utf8"));

const files = new Set(["theme-boot.js"]);
const visit = (key) => {
  const chunk = manifest[key];
  if (!chunk || files.has(chunk.file)) return;
  files.add(chunk.file);
  for (const css of chunk.css ?? []) files.add(css);
  for (const next of chunk.imports ?? []) visit(next);
};
visit(ENTRY);

const packed = new Map();
for (const file of readdirSync(out, { recursive: true })) {
  if (!/\.(js|css|svg)$/.test(file)) continue;
  const bytes = gzipSync(readFileSync(new URL(file, out)), { level: 9 });
  writeFileSync(new URL(`${file}.gz`, out), bytes);
  packed.set(file, bytes.length);
}

let total = 0;
for (const file of files) {
  const size = packed.get(file);
  total += size;
  console.log(`${(size / 1024).toFixed(1).padStart(7)} KB gzip  ${file}`);
}
console.log(
  `${(total / 1024).toFixed(1).padStart(7)} KB gzip  first page (budget ${BUDGET_BYTES / 1024} KB)`,
);
if (total > BUDGET_BYTES) {
  console.error("The first page is over its budget: load what it does not need lazily.");
  process.exit(1);
}
