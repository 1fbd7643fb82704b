/** What the pictures of a comparison are made of; pure functions only. */

import type { CompareModule, ComparisonSummary } from "../../api/types";
import { className } from "../../lib/timeClasses";

/** An exact time of the API: a number, or a decimal as text. */
export function ns(value: unknown): number {
  return Number(value);
}

export interface StepChange {
  /** The step of both sides, of other batch sizes for each sample. Unit: ns. */
  readonly base: number;
  readonly next: number;
  /** 95 % interval of the difference; null: unknown. Unit: ns. */
  readonly interval: readonly [low: number, high: number] | null;
  readonly isPerSample: boolean;
  /** "not confirmed": only runs among themselves could change it. */
  readonly verdict: string;
}

/** How the step changed, for each sample where the sides have other numbers of them. */
export function stepChange(found: ComparisonSummary): StepChange {
  const { samples, verdict, covers_runs } = found;
  const [before = 1, after = 1] = samples ?? [];
  // The bounds are of the new step with the samples of the base.
  const [low, high] = (found.interval_ns ?? []).map((bound) => bound / before);
  const interval = low === undefined || high === undefined ? null : ([low, high] as const);
  const isApart = interval !== null && (interval[0] > 0 || interval[1] < 0);
  return {
    base: ns(found.base.step_ns) / before,
    next: ns(found.new.step_ns) / after,
    interval,
    isPerSample: samples !== null,
    verdict: verdict === "cannot tell" && isApart && !covers_runs ? "not confirmed" : verdict,
  };
}

export interface Bar {
  readonly name: string;
  readonly start: number;
  readonly stop: number;
  readonly kind: "total" | "slower" | "faster";
}

/** From the base step, class by class, to the new step. */
export function waterfallBars(found: ComparisonSummary, names: readonly [string, string]): Bar[] {
  const bars: Bar[] = [{ name: names[0], start: 0, stop: ns(found.base.step_ns), kind: "total" }];
  let at = ns(found.base.step_ns);
  for (const one of found.classes) {
    if (ns(one.base_ns) === 0 && ns(one.new_ns) === 0) continue;
    const next = at + ns(one.difference_ns);
    const name = className(one.class);
    bars.push({ name, start: at, stop: next, kind: next > at ? "slower" : "faster" });
    at = next;
  }
  bars.push({ name: names[1], start: 0, stop: at, kind: "total" });
  return bars;
}

export interface Module {
  readonly name: string;
  readonly path: string;
  base: number;
  new: number;
  readonly parts: Map<string, Module>;
}

function emptyModule(name: string, path: string): Module {
  return { name, path, base: 0, new: 0, parts: new Map() };
}

/** A tree of sums by path; each comes behind the module that it is in. */
export function moduleTree(sums: readonly CompareModule[]): Module {
  const root = emptyModule("", "");
  for (const { path, base_ns, new_ns } of sums) {
    let node = root;
    for (const part of path.split("/").filter((name) => name !== "")) {
      const found = node.parts.get(part) ?? emptyModule(part, `${node.path}/${part}`);
      node.parts.set(part, found);
      node = found;
    }
    node.base = base_ns;
    node.new = new_ns;
  }
  return root;
}

export interface Box {
  readonly module: Module;
  readonly x: number;
  readonly width: number;
  readonly depth: number;
}

/** Boxes as wide as the mean of both sides, of a picture that is 1 wide; narrow ones are left out. */
export function icicleBoxes(root: Module, most_depth: number, least_width: number): Box[] {
  const total = root.base + root.new || 1;
  const boxes: Box[] = [];
  const place = (module: Module, x: number, depth: number) => {
    const width = (module.base + module.new) / total;
    if (width < least_width || depth >= most_depth) return;
    boxes.push({ module, x, width, depth });
    let at = x;
    const parts = [...module.parts.values()].sort((a, b) => b.base + b.new - a.base - a.new);
    for (const part of parts) {
      place(part, at, depth + 1);
      at += (part.base + part.new) / total;
    }
  };
  place(root, 0, 0);
  return boxes;
}

/** Splits the captures of a side in the address. */
export function captures(text: string | undefined): string[] {
  return (text ?? "").split(",").filter((part) => part !== "");
}
