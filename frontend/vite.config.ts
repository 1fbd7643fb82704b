import { defineConfig } from "vitest/config";
// @ts-expect-error: a script without types
import { docs } from "./scripts/docs.mjs";
// @ts-expect-error: a script without types
import { notices } from "./scripts/notices.mjs";

/** The files find each other wherever the server puts them, also below a proxy's path. */
const BESIDE = "./";

/** 12 hex digits between dots: the form that WhiteNoise takes for "never changes". */
const HASHED = "assets/[name].[hash:12]";

export default defineConfig(({ command }) => ({
  base: command === "build" ? BESIDE : "/",
  plugins: [docs(), notices()],
  build: {
    outDir: "../viewer/static/dlprof",
    emptyOutDir: true,
    manifest: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: "src/main.tsx",
      output: {
        hashCharacters: "hex",
        // All that the first page needs in one file: views that load later share none of it out.
        codeSplitting: { groups: [{ name: "page", test: /src\/main\.tsx$/ }] },
        entryFileNames: `${HASHED}.js`,
        chunkFileNames: `${HASHED}.js`,
        assetFileNames: `${HASHED}[extname]`,
      },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8000" } },
  // Files share their modules: to load them anew for each takes most of the time.
  test: { include: ["tests/**/*.test.ts"], isolate: false },
}));
