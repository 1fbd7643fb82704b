/** The changes of a what-if, as the sliders and other controls hold them. Pure functions only. */

import type { WhatIf as Answer, OpSensitivity, WhatIfChange } from "../../api/types";

/** Sliders: what takes most of the critical path, or most GPU time where nothing lies on it. */
const MOST_SLIDERS = 5;
/** A slider is a power of two: 2 ** -1 to 2 ** 3, in steps of a quarter. */
export const SLIDER = { min: -1, max: 3, step: 0.25 } as const;

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

/** The position of a slider that was not moved: twice as fast. */
export const TWICE = 1;

export interface Scenario {
  /** Position of the slider of each chosen op type, by name. */
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

/** A change that is predicted by itself, as one row of the table. */
export interface Row {
  readonly key: string;
  readonly label: string;
  readonly meaning: string;
  /** The op type that a slider speeds up; null: the change is on or off. */
  readonly opType: string | null;
  /** Name and value of a change that is on or off. */
  readonly change: readonly [name: string, value: string] | null;
  readonly isRank: boolean;
}

/** The rows of the declared changes that need no value, of ranks and of op types. */
export function rowsOf(
  changes: readonly WhatIfChange[],
  types: readonly Change[],
  rankLabel: (rank: string) => string,
): readonly Row[] {
  const rows = changes.flatMap((change): Row[] => {
    const { name, label, meaning, choices } = change;
    if (isSwitch(change)) {
      const on = [name, "1"] as const;
      return [{ key: name, label, meaning, opType: null, change: on, isRank: false }];
    }
    if (change.takes !== "rank") return [];
    return choices.map((rank) => ({
      ...{ key: `${name} ${rank}`, label: rankLabel(rank), meaning, opType: null, isRank: true },
      change: [name, rank] as const,
    }));
  });
  return [
    ...rows,
    ...types.map(({ name }) => ({
      ...{ key: `type ${name}`, label: name, meaning: "", opType: name, change: null },
      isRank: false,
    })),
  ];
}

/** The scenario of one row alone. */
export function aloneOf({ opType, change }: Row, scenario: Scenario): Scenario {
  if (opType !== null)
    return { sliders: { [opType]: scenario.sliders[opType] ?? TWICE }, values: {} };
  return { sliders: {}, values: change === null ? {} : { [change[0]]: change[1] } };
}

export function isChosen({ opType, change }: Row, scenario: Scenario): boolean {
  if (opType !== null) return scenario.sliders[opType] !== undefined;
  return change !== null && scenario.values[change[0]] === change[1];
}

/** The scenario with a row added or taken away; ranks are replayed together, so one goes alone. */
export function withRow(row: Row, isOn: boolean, scenario: Scenario, ranks: string): Scenario {
  const base = row.isRank && isOn ? UNCHANGED : { ...scenario, values: { ...scenario.values } };
  const values = { ...base.values };
  const sliders = { ...base.sliders };
  if (!row.isRank) delete values[ranks];
  if (row.opType !== null) {
    if (isOn) sliders[row.opType] = TWICE;
    else delete sliders[row.opType];
  }
  if (row.change !== null) {
    if (isOn) values[row.change[0]] = row.change[1];
    else delete values[row.change[0]];
  }
  return { sliders, values };
}

/** What a change is known to save of the step; less than nothing where that is not known. Unit: ns. */
export function effectOf(answer: Answer | undefined): number {
  return answer?.saving_ns ?? Number.NEGATIVE_INFINITY;
}
