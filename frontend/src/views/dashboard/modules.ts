/** The modules that the dashboard lists: the part of the tree with the most GPU time. */

/** A module as the list of groups has it; its name is its path, with a slash at the end. */
interface Module {
  readonly name: string;
  readonly gpu_time_ns: number | null;
}

/** A module with at least this share of the root's time wraps all of it. */
const WRAPPER_RATIO = 0.99;
const MOST = 10;

/** Those with the most time, each below the one that contains it; those that wrap all say nothing. */
export function pickModules<Row extends Module>(rows: readonly Row[]): readonly Row[] {
  const time = (row: Row) => row.gpu_time_ns ?? 0;
  const whole = Math.max(0, ...rows.map(time));
  const chosen = rows
    .filter((row) => time(row) < WRAPPER_RATIO * whole && time(row) > 0)
    .toSorted((a, b) => time(b) - time(a))
    .slice(0, MOST);
  const children = (parent: Row | null): readonly Row[] =>
    chosen
      .filter((row) => parentOf(row, chosen) === parent)
      .flatMap((row) => [row, ...children(row)]);
  return children(null);
}

/** The innermost of the rows that contains a row. */
function parentOf<Row extends Module>(row: Row, rows: readonly Row[]): Row | null {
  return rows.reduce<Row | null>((best, other) => {
    const contains = other !== row && row.name.startsWith(other.name);
    return contains && other.name.length > (best?.name.length ?? 0) ? other : best;
  }, null);
}

/** How many of the names contain a name. */
export function depthIn(name: string, names: readonly string[]): number {
  return names.filter((other) => other !== name && name.startsWith(other)).length;
}

/** "layer1" of "/ResNet/layer1/". */
export function ownName(name: string): string {
  return name.split("/").filter(Boolean).at(-1) ?? name;
}
