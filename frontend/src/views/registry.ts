/** The views of the page and where the navigation lists them. To add one, write its component and add it to both. */

import type { ComponentType } from "preact";
import { isReport } from "../api/source";
import type { Profile } from "../api/types";
import { t } from "../i18n";
import type { Scope } from "../state/scope";
import type { IconName } from "../ui/icons";
import { lazily } from "../ui/lazy";
import { DashboardView } from "./dashboard/DashboardView";

export interface ViewSpec {
  /** In the address: ?view=ops */
  readonly id: string;
  readonly title: string;
  /** The letter after `g` that opens it. */
  readonly letter: string;
  readonly component: ComponentType;
  /** Whether a profile has the data of the view; a view without this is always listed. */
  readonly isFor?: IsFor | undefined;
}

type IsFor = (profile: Profile, shown: Shown) => boolean;

/** What decides which views are listed. */
export type Shown = Pick<Scope, "profile" | "profiles">;

function hasSeveralRanks(profile: Profile): boolean {
  return Number(profile.info.rank_count ?? 0) > 1;
}

/** A report in one file and databases of NVIDIA's hold no single calls to replay. */
function hasSingleEvents(profile: Profile): boolean {
  return !isReport() && hasCosts(profile);
}

/** Databases of NVIDIA's and of older versions contain no costs. */
function hasCosts(profile: Profile): boolean {
  return profile.info.has_costs === "1";
}

/** A report in one file holds tables, no single events. */
function hasMemory(profile: Profile): boolean {
  return !isReport() && profile.info.has_memory === "1";
}

/** A report in one file has one profile, no single events, and no server to compare with others. */
function hasServer(): boolean {
  return !isReport();
}

/** One run has no trend. */
function hasSeveralRuns(_: Profile, { profiles }: Shown): boolean {
  return !isReport() && profiles.length > 1;
}

function lazyView(
  id: string,
  title: string,
  letter: string,
  load: () => Promise<{ readonly default: ComponentType }>,
  isFor?: IsFor,
): ViewSpec {
  return { id, title, letter, component: lazily(async () => (await load()).default), isFor };
}

export const VIEWS: readonly [ViewSpec, ...ViewSpec[]] = [
  { id: "dashboard", title: t("Dashboard"), letter: "d", component: DashboardView },
  lazyView("op-types", t("Op type summary"), "t", () => import("./types/OpTypesView")),
  lazyView("group-ops", t("Group ops"), "g", () => import("./groups/GroupOpsView")),
  lazyView("ops", t("Ops and kernels"), "o", () => import("./ops/OpsView")),
  lazyView(
    "kernels-by-iteration",
    t("Kernels by iteration"),
    "k",
    () => import("./kernels/KernelsByIterationView"),
  ),
  lazyView("kernels-by-op", t("Kernels by op"), "p", () => import("./kernels/KernelsByOpView")),
  lazyView("iterations", t("Iterations"), "i", () => import("./iterations/IterationsView")),
  lazyView("timeline", t("Timeline"), "l", () => import("./timeline/TimelineView"), hasServer),
  lazyView("memory", t("Memory"), "m", () => import("./memory/MemoryView"), hasMemory),
  lazyView("gpus", t("GPUs"), "u", () => import("./gpus/GpusView")),
  lazyView(
    "critical-path",
    t("Critical path"),
    "x",
    () => import("./critical/CriticalPathView"),
    hasSingleEvents,
  ),
  lazyView("roofline", t("Roofline"), "f", () => import("./roofline/RooflineView"), hasCosts),
  lazyView("ranks", t("Ranks"), "r", () => import("./ranks/RanksView"), hasSeveralRanks),
  lazyView("compare", t("Compare"), "c", () => import("./compare/CompareView"), hasServer),
  lazyView("history", t("History"), "h", () => import("./history/HistoryView"), hasSeveralRuns),
];

/** Pages that a link names with what they show: not in the navigation. */
const PAGES: readonly ViewSpec[] = [
  lazyView("op", t("Op"), "", () => import("./details/OpPage")),
  lazyView("kernel", t("Kernel"), "", () => import("./details/KernelPage")),
];

/** An entry of the navigation: a view, or several as tabs of one. */
export interface Destination {
  readonly title: string;
  readonly icon: IconName;
  /** The one that it opens comes first. */
  readonly views: readonly [ViewSpec, ...ViewSpec[]];
}

interface Group {
  readonly title: string;
  /** The icon and the ids of the views of each destination. */
  readonly places: readonly (readonly [IconName, ...string[]])[];
}

const GROUPS: readonly Group[] = [
  { title: t("Overview"), places: [["dashboard", "dashboard"]] },
  {
    title: t("Time"),
    places: [
      ["timeline", "timeline"],
      ["iterations", "iterations"],
      ["path", "critical-path"],
    ],
  },
  {
    title: t("Work"),
    places: [
      ["ops", "ops", "op-types", "group-ops", "kernels-by-op", "kernels-by-iteration", "roofline"],
    ],
  },
  {
    title: t("Resources"),
    places: [
      ["memory", "memory"],
      ["gpu", "ranks", "gpus"],
    ],
  },
  {
    title: t("Runs"),
    places: [
      ["compare", "compare"],
      ["history", "history"],
    ],
  },
];

/** The views that have data in a profile. */
export function viewsOf(shown: Shown): readonly ViewSpec[] {
  return VIEWS.filter((view) => view.isFor?.(shown.profile, shown) ?? true);
}

function destinationOf(icon: IconName, views: readonly ViewSpec[]): Destination[] {
  const [first, second] = views;
  if (first === undefined) return [];
  const isBoth = first.id === "ranks" && second !== undefined;
  const title = isBoth ? t("GPUs and ranks") : first.title;
  return [{ title, icon, views: [first, ...views.slice(1)] }];
}

/** The navigation of a profile: groups of destinations, none of them empty. */
export function navigationOf(
  shown: Shown,
): readonly { readonly title: string; readonly places: readonly Destination[] }[] {
  const listed = viewsOf(shown);
  return GROUPS.map(({ title, places }) => ({
    title,
    places: places.flatMap(([icon, ...ids]) =>
      destinationOf(
        icon,
        ids.flatMap((id) => listed.find((view) => view.id === id) ?? []),
      ),
    ),
  })).filter((group) => group.places.length > 0);
}

/** The pages of an op and of a kernel are reached from the lists of ops. */
export function isWithin(place: Destination, id: string): boolean {
  const at = id === "op" || id === "kernel" ? "ops" : id;
  return place.views.some((view) => view.id === at);
}

export function findView(id: string | undefined): ViewSpec | null {
  if (id === undefined) return VIEWS[0];
  return [...VIEWS, ...PAGES].find((view) => view.id === id) ?? null;
}

/** Pages of the documentation that belong to no view of their own. */
const MORE_DOCS = [{ id: "key-nodes", title: t("Key nodes") }] as const;

/** A page of the documentation: its id in the address and its title. */
export function findDocs(id: string): { readonly id: string; readonly title: string } | null {
  return MORE_DOCS.find((page) => page.id === id) ?? findView(id);
}
