/** Builds the page of the HTML report: one file, everything inside, to be filled with data. */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { docs } from "./scripts/docs.mjs";
import { noticesOf } from "./scripts/notices.mjs";

const PAGE = "page.html";
const THEME_BOOT = readFileSync(new URL("public/theme-boot.js", import.meta.url), "utf8");
const ICON = readFileSync(new URL("public/favicon.svg", import.meta.url));

/** A script as the text of its element: nothing in it may end that, or begin a comment. */
function scriptText(code) {
  return code.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
}

function hashOf(text) {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

/** Only these two scripts run, nothing is fetched: not even what a profile's text might ask for. */
function policyOf(scripts) {
  return [
    "default-src 'none'",
    `script-src ${scripts.map(hashOf).join(" ")}`,
    "style-src 'unsafe-inline'",
    "img-src data: blob:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
}

function pageOf(code, style, notices) {
  const [boot, application] = [scriptText(THEME_BOOT), scriptText(code)];
  // Whoever passes a report on passes the packages on that are in it.
  return `<!doctype html>
<!--
${notices.replaceAll("-->", "--&gt;")}-->
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policyOf([boot, application])}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title><!--dlprof:title--></title>
<link rel="icon" href="data:image/svg+xml;base64,${ICON.toString("base64")}">
<script>${boot}</script>
<style>${style}</style>
</head>
<body>
<div id="app"><p class="report-start">DLProf …</p></div>
<noscript>This report draws its pages with JavaScript, which this browser has turned off.</noscript>
<!--dlprof:data-->
<script>${application}</script>
</body>
</html>
`;
}

/** Puts what was built into one page, and leaves nothing else. */
function onePage() {
  return {
    name: "one-page",
    enforce: "post",
    generateBundle(_, bundle) {
      const notices = noticesOf(bundle);
      let code = "";
      let style = "";
      for (const [name, item] of Object.entries(bundle)) {
        if (item.type === "chunk") code += item.code;
        else if (name.endsWith(".css")) style += item.source.toString();
        delete bundle[name];
      }
      this.emitFile({ type: "asset", fileName: PAGE, source: pageOf(code, style, notices) });
    },
  };
}

const TRANSLATIONS = fileURLToPath(new URL("src/report/translations.ts", import.meta.url));

export default defineConfig({
  publicDir: false,
  resolve: { alias: [{ find: /^\.\/translations$/, replacement: TRANSLATIONS }] },
  plugins: [docs(), onePage()],
  build: {
    outDir: "../aggregator/html_report",
    // The folder holds the code that fills the page.
    emptyOutDir: false,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 2000,
    rolldownOptions: {
      input: "src/report/main.tsx",
      output: { format: "iife", codeSplitting: false },
      // Asked for by the helper that loads chunks, of which there are none.
      checks: { emptyImportMeta: false },
      transform: { define: { "import.meta.url": "''" } },
    },
  },
});
