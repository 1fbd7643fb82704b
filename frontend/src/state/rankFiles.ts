/** Rank files of one job; the rank of each comes from its name, or is typed. */

export interface ChosenFile {
  readonly file: File;
  /** As typed; empty: taken from the file or the order. */
  readonly rank: string;
}

/** As the server reads names: `rank12`, `run_rank-3.sqlite`. */
const RANK_IN_NAME = /(?:^|[^a-z])rank[_\-.=]?(\d+)(?!\d)/gi;

export function rankInName(name: string): number | null {
  const found = [...name.matchAll(RANK_IN_NAME)].at(-1);
  return found === undefined ? null : Number(found[1]);
}

/** Files in the order of the numbers in their names; with ranks if all names have different ones. */
export function asChosen(files: readonly File[]): readonly ChosenFile[] {
  const sorted = [...files].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const inNames = sorted.map((file) => rankInName(file.name));
  const areDifferent = !inNames.includes(null) && new Set(inNames).size === inNames.length;
  return sorted.map((file, index) => ({ file, rank: areDifferent ? String(inNames[index]) : "" }));
}

export type RankMistake = "not a number" | "twice" | "missing";

/** What is wrong with the ranks that were typed. */
export function rankMistake(chosen: readonly ChosenFile[]): RankMistake | null {
  const typed = chosen.map((item) => item.rank.trim()).filter((rank) => rank !== "");
  if (typed.some((rank) => !/^\d{1,6}$/.test(rank))) return "not a number";
  if (new Set(typed.map(Number)).size < typed.length) return "twice";
  return typed.length === 0 || typed.length === chosen.length ? null : "missing";
}

/** The ranks to send; null: the server takes them from the files. */
export function wantedRanks(chosen: readonly ChosenFile[]): readonly number[] | null {
  const found = asChosen(chosen.map((item) => item.file));
  const own = new Map(found.map((item) => [item.file, item.rank]));
  if (chosen.every((item) => own.get(item.file) === item.rank.trim())) return null;
  const typed = chosen.map((item) => item.rank.trim());
  return typed.includes("") ? null : typed.map(Number);
}
