import { expect, it } from "vitest";

/** Folders and files of `src/`; one imports only those of its own line and of lines below it. */
const LAYERS: readonly (readonly string[])[] = [
  ["main.tsx", "app.tsx", "report"],
  ["frame"],
  ["views"],
  ["charts", "content", "table"],
  ["ui"],
  ["lib"],
  ["api", "i18n", "state"],
];
const IMPORT = /(?:from|import)\s*\(?\s*"(\.[^"]+)"/g;
const SOURCES: Readonly<Record<string, string>> = import.meta.glob("../src/**/*.{ts,tsx}", {
  query: "?raw",
  import: "default",
  eager: true,
});
const files = Object.keys(SOURCES).map((path) => path.replace("../src/", ""));

function layerOf(path: string): number {
  const [top = ""] = path.split("/");
  return LAYERS.findIndex((layer) => layer.some((name) => name.replace(".tsx", "") === top));
}

function resolved(file: string, target: string): string {
  return new URL(target, `file:///${file}`).pathname.slice(1);
}

it("gives every source a layer", () => {
  const without = files.filter((file) => layerOf(file.replace(/\.tsx?$/, "")) < 0);
  expect(files.length).toBeGreaterThan(100);
  expect(without).toEqual([]);
});

it("imports only downward: the frame shows views, and no view knows the frame", () => {
  const upward = files.flatMap((file) =>
    [...(SOURCES[`../src/${file}`] ?? "").matchAll(IMPORT)]
      .map(([, target = ""]) => resolved(file, target))
      .filter((target) => layerOf(target) >= 0)
      .filter((target) => layerOf(target) < layerOf(file.replace(/\.tsx?$/, "")))
      .map((target) => `${file} -> ${target}`),
  );
  expect(upward).toEqual([]);
});
