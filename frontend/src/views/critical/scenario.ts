/** The changes of a what-if, as the sliders and other controls hold them. Pure functions only. */

import type { ChainItem, OpSensitivity, WhatIfChange } from "../../api/types";

/** Sliders: what takes most of the critical path, or most GPU time where nothing lies on it. */
const MOST_SLIDERS = 5;
/** A slider is a power of two: 2 ** -1 to 2 ** 3, in steps of a quarter. */
export const SLIDER = { min: -1, max: 3, step: 0.25 } as const;
/** Parts of the drawn chain narrower than this are joined with their neighbors. */
const NARROWEST = 0.0008;

export interface Change {
  /** In the address of the request. */
  readonly name: string;
  /** Mean time of a step on the GPU, and of it on the critical path. Unit: ns. */
  readonly ownNs: number;
  readonly pathNs: number;
}

/** The op types to change: those with most time on the path. */
export function opTypes(ops: readonly OpSensitivity[]): Change[] {
  const sums = new Map<string, Change>();
  for (const op of ops) {
    if (op.op_type === "" || /[;=]/.test(op.op_type)) continue;
    const before = sums.get(op.op_type);
    sums.set(op.op_type, {
      name: op.op_type,
      ownNs: (before?.ownNs ?? 0) + op.own_ns,
      pathNs: (before?.pathNs ?? 0) + op.path_ns,
    });
  }
  return [...sums.values()]
    .sort((a, b) => b.pathNs - a.pathNs || b.ownNs - a.ownNs || (a.name < b.name ? -1 : 1))
    .slice(0, MOST_SLIDERS);
}

/** How much faster a slider says: 0 is unchanged, 1 twice as fast. */
export function factor(position: number): number {
  return 2 ** position;
}

export interface Scenario {
  /** Position of each moved slider, by name. */
  readonly sliders: Readonly<Record<string, number>>;
  /** Value of every other change, by name; empty: not chosen. */
  readonly values: Readonly<Record<string, string>>;
}

export const UNCHANGED: Scenario = { sliders: {}, values: {} };

/** Whether a change is turned on without a value. */
export function isSwitch({ takes }: WhatIfChange): boolean {
  return takes === "switch" || takes === "op";
}

export function isUnchanged(scenario: Scenario): boolean {
  return Object.keys(requestOf(scenario)).length === 0;
}

/** Parameters of the request; without any, nothing is changed. */
export function requestOf(scenario: Scenario): Record<string, string> {
  const moved = Object.entries(scenario.sliders).filter(([, position]) => position !== 0);
  const speedup = moved.map(([name, at]) => `${name}=${factor(at).toFixed(4)}x`).join(";");
  const chosen = Object.entries(scenario.values).filter(([, value]) => value !== "");
  return { ...(speedup === "" ? {} : { speedup }), ...Object.fromEntries(chosen) };
}

export interface Piece {
  readonly kind: string;
  readonly offsetNs: number;
  readonly durationNs: number;
  /** The longest item of the piece. */
  readonly item: ChainItem;
  readonly items: number;
}

/** The chain as it is drawn: items too narrow to be seen are joined. */
export function pieces(chain: readonly ChainItem[], stepNs: number): Piece[] {
  const narrowest = stepNs * NARROWEST;
  const found: Piece[] = [];
  for (const item of chain) {
    const last = found.at(-1);
    if (last !== undefined && last.durationNs < narrowest) {
      const longest = item.duration_ns > last.item.duration_ns ? item : last.item;
      found[found.length - 1] = {
        kind: longest.kind,
        offsetNs: last.offsetNs,
        durationNs: item.offset_ns + item.duration_ns - last.offsetNs,
        item: longest,
        items: last.items + 1,
      };
    } else {
      const { kind, offset_ns, duration_ns } = item;
      found.push({ kind, offsetNs: offset_ns, durationNs: duration_ns, item, items: 1 });
    }
  }
  return found;
}
