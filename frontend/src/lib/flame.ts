/** An icicle of nested values: parents above their parts. Pure functions only. */

export interface FlameNode {
  /** Path of the group: unique, and what begins the paths of all below it. */
  readonly name: string;
  readonly label: string;
  /** Null: unknown. */
  readonly value: number | null;
  readonly children: readonly FlameNode[];
}

export interface FlameRow {
  readonly name: string;
  readonly label: string;
  readonly value: number | null;
}

export interface Box {
  /** Of a box of others, or of own time: the name of their parent. */
  readonly name: string;
  readonly label: string;
  readonly value: number | null;
  readonly level: number;
  readonly x: number;
  readonly width: number;
  /** How many boxes narrower than a pixel it stands for; 0: it is a group; -1: own time of one. */
  readonly merged: number;
}

/** Width of a node: its value, or that of its parts where some of the rest is below zero. */
export function weight(node: FlameNode): number {
  const parts = node.children.reduce((sum, child) => sum + weight(child), 0);
  return Math.max(node.value ?? 0, parts, 0);
}

/** Groups by their paths, the heaviest first; several roots where paths have no common beginning. */
export function flameTree(rows: readonly FlameRow[]): readonly FlameNode[] {
  type Open = FlameRow & { readonly children: Open[] };
  const roots: Open[] = [];
  const path: Open[] = [];
  for (const row of rows.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    while (path.length > 0 && !row.name.startsWith(path.at(-1)?.name ?? "")) path.pop();
    const node: Open = { ...row, children: [] };
    (path.at(-1)?.children ?? roots).push(node);
    path.push(node);
  }
  const sort = (nodes: Open[]): Open[] => {
    for (const node of nodes) sort(node.children);
    return nodes.sort((a, b) => weight(b) - weight(a));
  };
  return sort(roots);
}

/** From the heaviest root down to the last group, always the heaviest part. */
export function hottestPath(roots: readonly FlameNode[]): readonly string[] {
  const path: string[] = [];
  for (let node = roots[0]; node !== undefined && weight(node) > 0; node = node.children[0]) {
    path.push(node.name);
  }
  return path;
}

/** The boxes of nodes side by side, and below each those of its parts; the rest is its own time. */
export function boxes(
  nodes: readonly FlameNode[],
  width: number,
  x = 0,
  level = 0,
  whole = nodes.reduce((sum, node) => sum + weight(node), 0),
  parent = "",
): readonly Box[] {
  if (whole <= 0) return [];
  const found: Box[] = [];
  let at = x;
  let merged = 0;
  let hidden = 0;
  for (const node of nodes) {
    const share = (width * weight(node)) / whole;
    if (share < 1) {
      merged += 1;
      hidden += node.value ?? 0;
      continue;
    }
    const { name, label, value } = node;
    found.push({ name, label, value, level, x: at, width: share, merged: 0 });
    found.push(...boxes(node.children, share, at, level + 1, weight(node), name));
    at += share;
  }
  if (hidden > 0) {
    const rest = Math.max(1, (width * hidden) / whole);
    found.push({ name: parent, label: "", value: hidden, level, x: at, width: rest, merged });
    at += rest;
  }
  const own = whole - nodes.reduce((sum, node) => sum + weight(node), 0);
  const left = Math.min((width * own) / whole, x + width - at);
  if (nodes.length > 0 && left >= 1) {
    found.push({ name: parent, label: "", value: own, level, x: at, width: left, merged: -1 });
  }
  return found;
}

/** The node of a name, and those above it. */
export function pathTo(nodes: readonly FlameNode[], name: string): readonly FlameNode[] {
  const next = nodes.find((node) => name.startsWith(node.name));
  if (next === undefined) return [];
  return next.name === name ? [next] : [next, ...pathTo(next.children, name)];
}
