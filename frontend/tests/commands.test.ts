import { describe, expect, it } from "vitest";
import { programOf, timingCommand, withProgram } from "../src/lib/commands";

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

  it("put the program into a command of the server, as it is", () => {
    const template = "ncu --set=full --kernel-name=gemm PROGRAM ARGUMENTS...";
    expect(withProgram(template, "dlprof python a.py '$&'")).toBe(
      "ncu --set=full --kernel-name=gemm python a.py '$&'",
    );
  });
});
