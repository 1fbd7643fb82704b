/** Command lines that a reader copies. Pure functions only. */

const PROGRAM = "python train.py";

/** The program that was profiled, out of the command that profiled it; else one that stands for it. */
export function programOf(command: string | null | undefined): string {
  return (
    /(?:^|\s)((?:\S*\/)?(?:python[\d.]*|torchrun|accelerate)\s.+)$/.exec(command ?? "")?.[1] ??
    PROGRAM
  );
}

/** Times some steps without markers before it profiles. */
export function timingCommand(command: string | null | undefined): string {
  return `dlprof ${programOf(command)}`;
}

export interface ProfiledKernel {
  /** As Nsight Compute knows it: without arguments. */
  readonly name: string;
  /** Launches of it in a step; null: unknown. */
  readonly perStep: number | null;
  /** The step whose launches are wanted; those before it are skipped. */
  readonly step: number | null;
}

/** Nsight Compute on one kernel: on its launches of one steady step, where their number is known. */
export function kernelCommand(kernel: ProfiledKernel, command: string | null | undefined): string {
  const { name, perStep, step } = kernel;
  const launches = perStep === null ? null : Math.max(1, Math.round(perStep));
  const window =
    launches === null || step === null || perStep === null
      ? []
      : [`--launch-skip ${Math.round(perStep * step)}`, `--launch-count ${launches}`];
  const words = [`--kernel-name ${quoted(name)}`, ...window, "--set full"];
  return `ncu ${words.join(" ")} ${programOf(command)}`;
}

function quoted(word: string): string {
  return /^[\w.-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
