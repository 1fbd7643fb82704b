import { describe, expect, it } from "vitest";
import { kernelCommand, programOf, timingCommand } from "../src/lib/commands";

describe("commands to copy", () => {
  it("run the program that was profiled, without what profiled it", () => {
    expect(programOf("dlprof --mode=pytorch python3.11 train.py --lr 1")).toBe(
      "python3.11 train.py --lr 1",
    );
    expect(programOf("/opt/bin/dlprof torchrun --nproc-per-node 2 a.py")).toBe(
      "torchrun --nproc-per-node 2 a.py",
    );
    expect(timingCommand("dlprof --database=a.sqlite")).toBe("dlprof python train.py");
    expect(timingCommand(null)).toBe("dlprof python train.py");
  });

  it("profile the launches of one steady step, where their number is known", () => {
    const kernel = { name: "gemm_kernel", perStep: 12.1, step: 4 };
    expect(kernelCommand(kernel, null)).toBe(
      "ncu --kernel-name gemm_kernel --launch-skip 48 --launch-count 12 --set full python train.py",
    );
    expect(kernelCommand({ ...kernel, perStep: null }, null)).toBe(
      "ncu --kernel-name gemm_kernel --set full python train.py",
    );
  });

  it("quote names that a shell would read as something else", () => {
    const kernel = { name: "a<b> it's; rm", perStep: null, step: null };
    expect(kernelCommand(kernel, null)).toContain("--kernel-name 'a<b> it'\\''s; rm' ");
  });
});
