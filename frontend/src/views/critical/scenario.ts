/** The changes of a what-if, as the address and the request hold them. Pure functions only. */

import type { WhatIf as Answer, OpSensitivity, WhatIfChange } from "../../api/types";
import type { Query, QueryPatch } from "../../state/query";

/** Sliders: what takes most of the critical path, or most GPU time where nothing lies on it. */
const MOST_SLIDERS = 5;
/** A slider is a power of two: 2 ** -1 to 2 ** 3, in steps of a quarter. */
export const SLIDER = { min: -1, max: 3, step: 0.25 } as const;
/** The position of a slider that was not moved: twice as fast. */
const TWICE = 1;
/** Parameter of the change of a rank, which goes with no other. */
const RANK = "rank_as_median";
/** Parameter with the speed of every op type that is faster. */
const SPEEDUP = "speedup";
/** Before the name of a change in the address of the page. */
const PREFIX = "if.";

/** Parameters of the request; without any, nothing is changed. */
export type Scenario = Readonly<Record<string, string>>;

export const UNCHANGED: Scenario = {};

/** The scenario of an address. */
export function scenarioOf(query: Query): Scenario {
  const chosen = [...query].filter(([key]) => key.startsWith(PREFIX));
  return Object.fromEntries(chosen.map(([key, value]) => [key.slice(PREFIX.length), value]));
}

/** What changes in the address from one scenario to another. */
export function patchOf(before: Scenario, after: Scenario): QueryPatch {
  const names = Object.keys({ ...before, ...after });
  return Object.fromEntries(names.map((name) => [`${PREFIX}${name}`, after[name] ?? null]));
}

/** The op types to change: those with most time on the path. */
export function opTypes(ops: readonly OpSensitivity[]): string[] {
  const sums = new Map<string, { own: number; path: number }>();
  for (const { op_type, own_ns, path_ns } of ops) {
    if (op_type === "" || /[;=]/.test(op_type)) continue;
    const { own = 0, path = 0 } = sums.get(op_type) ?? {};
    sums.set(op_type, { own: own + own_ns, path: path + path_ns });
  }
  return [...sums]
    .sort(([a, one], [b, two]) => two.path - one.path || two.own - one.own || (a < b ? -1 : 1))
    .slice(0, MOST_SLIDERS)
    .map(([name]) => name);
}

/** Whether a change is turned on without a value. */
export function isSwitch({ takes }: WhatIfChange): boolean {
  return takes === "switch" || takes === "op";
}

export function isUnchanged(scenario: Scenario): boolean {
  return Object.keys(scenario).length === 0;
}

/** A change that is predicted by itself, as one row of the table. */
export interface Row {
  readonly name: string;
  /** Of a change that is on or off; of a faster op type, its name. */
  readonly value: string;
  readonly label: string;
  readonly meaning: string;
  /** Why it changes nothing in this profile; null: it may. */
  readonly reason: string | null;
}

/** The rows of the declared changes that need no value, of ranks and of op types. */
export function rowsOf(
  changes: readonly WhatIfChange[],
  types: readonly string[],
  rankLabel: (rank: string) => string,
): readonly Row[] {
  const rows = changes.flatMap((change): Row[] => {
    const { name, label, meaning, choices, reason } = change;
    if (isSwitch(change)) return [{ name, value: "1", label, meaning, reason }];
    return choices.map((rank) => ({ name, value: rank, label: rankLabel(rank), meaning, reason }));
  });
  return [...rows, ...types.map((type) => faster(type))];
}

function faster(type: string): Row {
  return { name: SPEEDUP, value: type, label: type, meaning: "", reason: null };
}

/** Whether a slider says how much faster the op type of a row is. */
export function hasSpeed({ name }: Row): boolean {
  return name === SPEEDUP;
}

function speedsOf(scenario: Scenario): Map<string, string> {
  const parts = (scenario[SPEEDUP] ?? "").split(";").map((part) => part.split("="));
  return new Map(parts.flatMap(([type, speed]) => (type && speed ? [[type, speed]] : [])));
}

/** Where the slider of an op type stands: 0 is unchanged, 1 twice as fast. */
export function positionOf(type: string, scenario: Scenario): number {
  const factor = Number.parseFloat(speedsOf(scenario).get(type) ?? "");
  return factor > 0 ? Math.log2(factor) : TWICE;
}

/** The scenario of one row alone. */
export function aloneOf(row: Row, scenario: Scenario): Scenario {
  if (!hasSpeed(row)) return { [row.name]: row.value };
  return withSpeed(row.value, positionOf(row.value, scenario), UNCHANGED);
}

export function isChosen(row: Row, scenario: Scenario): boolean {
  return hasSpeed(row) ? speedsOf(scenario).has(row.value) : scenario[row.name] === row.value;
}

/** The scenario with an op type as fast as a slider says; null: as it is. */
export function withSpeed(type: string, position: number | null, scenario: Scenario): Scenario {
  const speeds = speedsOf(scenario);
  if (position === null) speeds.delete(type);
  else speeds.set(type, `${Number((2 ** position).toFixed(4))}x`);
  return withValue(SPEEDUP, [...speeds].map((pair) => pair.join("=")).join(";"), scenario);
}

/** The scenario with another value of a change; empty: without it. */
export function withValue(name: string, value: string, scenario: Scenario): Scenario {
  if (name === RANK && value !== "") return { [name]: value };
  const { [name]: _, [RANK]: __, ...others } = scenario;
  return value === "" ? others : { ...others, [name]: value };
}

/** The scenario with a row added or taken away. */
export function withRow(row: Row, isOn: boolean, scenario: Scenario): Scenario {
  if (hasSpeed(row)) return withSpeed(row.value, isOn ? TWICE : null, scenario);
  return withValue(row.name, isOn ? row.value : "", scenario);
}

/** What a change is known to save of the step; less than nothing where that is not known. Unit: ns. */
export function effectOf(answer: Answer | undefined): number {
  return answer?.saving_ns ?? Number.NEGATIVE_INFINITY;
}
