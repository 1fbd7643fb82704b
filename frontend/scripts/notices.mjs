/**
 * The notices that licenses ask for in copies: of every package whose code is in what is built, as
 * its own license file has them. A package without one fails the build. And the list of these
 * packages for programs (CycloneDX), which the wheel takes into its metadata.
 */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const NOTICES = "NOTICES.txt";
/** Not served: beside the manifest. */
const SBOM = ".vite/sbom.cdx.json";

const PACKAGE = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//;
const LICENSE_FILE = /^(licen[cs]e|copying|notice)([.-].*)?$/i;
const RULE = "=".repeat(80);
/** Helpers that the build writes itself are code of these packages. */
const HELPER = /^\0(rolldown|vite)\//;
const HERE = fileURLToPath(new URL("../node_modules/", import.meta.url));

function folderOf(id) {
  const helper = HELPER.exec(id)?.[1];
  return helper ? join(HERE, helper) : PACKAGE.exec(id.replace(/^\0/, ""))?.[1];
}

/** Folders of the packages that the modules of a bundle come from, sorted by name. */
function packagesIn(bundle) {
  const folders = Object.values(bundle)
    .flatMap((item) => (item.type === "chunk" ? item.moduleIds : (item.originalFileNames ?? [])))
    .map(folderOf)
    .filter((folder) => folder !== undefined);
  return [...new Set(folders)].sort();
}

function describe(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

function noticeOf(folder) {
  const { name, version, license } = describe(folder);
  const files = readdirSync(folder).filter((file) => LICENSE_FILE.test(file));
  if (!files.length) throw new Error(`${name} is bundled and has no license file`);
  const texts = files.sort().map((file) => readFileSync(join(folder, file), "utf8"));
  // Vite's helpers are its own code, and not that of the packages in the tool itself.
  const own = texts.map((text) => text.split(/^# Licenses of bundled dependencies$/m)[0].trim());
  return `${name} ${version} (${license})\n\n${own.join("\n\n")}`;
}

/** The text of all notices of a bundle. */
export function noticesOf(bundle) {
  const notices = packagesIn(bundle).map(noticeOf);
  const title = "This contains code of the following packages.";
  return `${[title, ...notices].join(`\n\n${RULE}\n\n`)}\n`;
}

/** Packages of a bundle as a CycloneDX document. */
function sbomOf(bundle) {
  const components = packagesIn(bundle)
    .map(describe)
    .map(({ name, version, license }) => ({
      type: "library",
      name,
      version,
      licenses: [{ expression: license }],
      purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
    }));
  return JSON.stringify({ bomFormat: "CycloneDX", specVersion: "1.6", version: 1, components });
}

/** Writes the notices beside what is built, and says in each file with such code where they are. */
export function notices() {
  return {
    name: "notices",
    enforce: "post",
    generateBundle(_, bundle) {
      const source = noticesOf(bundle);
      this.emitFile({ type: "asset", fileName: SBOM, source: sbomOf(bundle) });
      this.emitFile({ type: "asset", fileName: NOTICES, source });
      for (const item of Object.values(bundle)) {
        if (item.type === "chunk" && packagesIn({ item }).length)
          item.code = `/*! The notices of the packages in this file are in ${NOTICES}. */\n${item.code}`;
      }
    },
  };
}
