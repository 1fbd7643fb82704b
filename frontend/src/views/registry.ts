/** The views of the page. To add one, write its component and add an entry here. */

import type { ComponentType } from "preact";
import { isReport } from "../api/source";
import type { Profile } from "../api/types";
import { t } from "../i18n";
import type { IconName } from "../ui/icons";
import { CompareView } from "./compare/CompareView";
import { CriticalPathView } from "./critical/CriticalPathView";
import { DashboardView } from "./dashboard/DashboardView";
import { GpusView } from "./gpus/GpusView";
import { GroupOpsView } from "./groups/GroupOpsView";
import { HistoryView } from "./history/HistoryView";
import { IterationsView } from "./iterations/IterationsView";
import { KernelsByIterationView } from "./kernels/KernelsByIterationView";
import { KernelsByOpView } from "./kernels/KernelsByOpView";
import { MemoryView } from "./memory/MemoryView";
import { KernelPage } from "./one/KernelPage";
import { OpPage } from "./one/OpPage";
import { OpsView } from "./ops/OpsView";
import { RanksView } from "./ranks/RanksView";
import { RooflineView } from "./roofline/RooflineView";
import { LazyTimeline } from "./timeline/LazyTimeline";
import { OpTypesView } from "./types/OpTypesView";

export interface ViewSpec {
  /** In the address: ?view=ops */
  readonly id: string;
  readonly title: string;
  readonly icon: IconName;
  /** The letter after `g` that opens it. */
  readonly letter: string;
  readonly component: ComponentType;
  /** Whether a profile has the data of the view; a view without this is always listed. */
  readonly isFor?: (profile: Profile) => boolean;
}

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

/** A report in one file has one profile, and no server to compare with others. */
function hasServer(): boolean {
  return !isReport();
}

export const VIEWS: readonly [ViewSpec, ...ViewSpec[]] = [
  {
    id: "dashboard",
    title: t("Dashboard"),
    icon: "dashboard",
    letter: "d",
    component: DashboardView,
  },
  {
    id: "op-types",
    title: t("Op type summary"),
    icon: "types",
    letter: "t",
    component: OpTypesView,
  },
  { id: "group-ops", title: t("Group ops"), icon: "tree", letter: "g", component: GroupOpsView },
  { id: "ops", title: t("Ops and kernels"), icon: "ops", letter: "o", component: OpsView },
  {
    id: "kernels-by-iteration",
    title: t("Kernels by iteration"),
    icon: "kernels",
    letter: "k",
    component: KernelsByIterationView,
  },
  {
    id: "kernels-by-op",
    title: t("Kernels by op"),
    icon: "linked",
    letter: "p",
    component: KernelsByOpView,
  },
  {
    id: "iterations",
    title: t("Iterations"),
    icon: "iterations",
    letter: "i",
    component: IterationsView,
  },
  {
    id: "timeline",
    title: t("Timeline"),
    icon: "timeline",
    letter: "l",
    component: LazyTimeline,
    // The report in one file holds tables, no single events.
    isFor: () => !isReport(),
  },
  {
    id: "memory",
    title: t("Memory"),
    icon: "memory",
    letter: "m",
    component: MemoryView,
    isFor: hasMemory,
  },
  { id: "gpus", title: t("GPUs"), icon: "gpu", letter: "u", component: GpusView },
  {
    id: "critical-path",
    title: t("Critical path"),
    icon: "path",
    letter: "x",
    component: CriticalPathView,
    isFor: hasSingleEvents,
  },
  {
    id: "roofline",
    title: t("Roofline"),
    icon: "roofline",
    letter: "f",
    component: RooflineView,
    isFor: hasCosts,
  },
  {
    id: "ranks",
    title: t("Ranks"),
    icon: "ranks",
    letter: "r",
    component: RanksView,
    isFor: hasSeveralRanks,
  },
  {
    id: "compare",
    title: t("Compare"),
    icon: "compare",
    letter: "c",
    component: CompareView,
    isFor: hasServer,
  },
  {
    id: "history",
    title: t("History"),
    icon: "history",
    letter: "h",
    component: HistoryView,
    isFor: hasServer,
  },
];

/** Pages that a link names with what they show: not in the navigation. */
const PAGES: readonly ViewSpec[] = [
  { id: "op", title: t("Op"), icon: "ops", letter: "", component: OpPage },
  { id: "kernel", title: t("Kernel"), icon: "kernels", letter: "", component: KernelPage },
];

/** The views that have data in a profile. */
export function viewsOf(profile: Profile): readonly ViewSpec[] {
  return VIEWS.filter((view) => view.isFor?.(profile) ?? true);
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
