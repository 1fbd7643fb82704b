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

/** A command of the server, about the program that was profiled. */
export function withProgram(template: string, command: string | null | undefined): string {
  return template.replace("PROGRAM ARGUMENTS...", () => programOf(command));
}
