import { describe, expect, it } from "vitest";
import { shortNames } from "../src/lib/names";

const LAYERS = Array.from({ length: 32 }, (_, layer) =>
  ["gate_proj", "up_proj", "down_proj"].map(
    (part) => `/iteration #/LlamaForCausalLM/model/layers.${layer}/mlp/${part}/linear`,
  ),
).flat();

describe("names of a table", () => {
  it("differ wherever the names do, however narrow the column", () => {
    const kernels = ["32x32", "32x64", "64x32"].flatMap((tile) =>
      ["nn", "tn"].map((layout) => `ampere_sgemm_${tile}_sliced1x4_with_a_long_tail_${layout}`),
    );
    const recomputed = LAYERS.map((name) => name.replace("#/", "#/recompute/"));
    for (const names of [LAYERS, kernels, [...LAYERS, ...recomputed], ["/a/b", "/a/b[2]"]]) {
      for (const letters of [4, 12, 24, 40, 200]) {
        const { text } = shortNames(names, letters);
        expect(new Set(names.map(text)).size).toBe(names.length);
      }
    }
  });
  it("leave out what all begin with, and keep the part with the index", () => {
    const { prefix, text } = shortNames(LAYERS, 32);
    expect(prefix).toBe("/iteration #/LlamaForCausalLM/model/");
    expect(text(LAYERS[17] ?? "")).toBe("layers.5/mlp/down_proj/linear");
    const narrow = shortNames([...LAYERS, "/iteration #/embedding"], 34);
    expect(narrow.prefix).toBe("/iteration #/");
    expect(narrow.text(LAYERS[17] ?? "")).toBe("…/layers.5/mlp/down_proj/linear");
  });
  it("need not all be paths", () => {
    const mixed = shortNames(["/model/linear", "unassociated_cudaLaunchKernel", "/model"], 40);
    expect(mixed.prefix).toBe("");
    expect(mixed.text("/model/linear")).toBe("/model/linear");
  });
  it("stay whole where there is room, and a name alone keeps its path", () => {
    expect(shortNames(["/iteration #/linear"], 40).text("/iteration #/linear")).toBe(
      "/iteration #/linear",
    );
    expect(shortNames(["a", "a"], 9).text("a")).toBe("a");
  });
});
