/** The views of the product. A new one: write its file and add its line here. */

import type { ComponentType } from "preact";
import type { IconName } from "../ui/icons";
import { DashboardView } from "./dashboard/DashboardView";
import { IterationsView } from "./iterations/IterationsView";
import { OpsView } from "./ops/OpsView";

export interface ViewSpec {
  /** In the address: ?view=ops */
  readonly id: string;
  readonly title: string;
  readonly icon: IconName;
  /** The letter after `g` that opens it. */
  readonly letter: string;
  readonly component: ComponentType;
}

export const VIEWS: readonly [ViewSpec, ...ViewSpec[]] = [
  { id: "dashboard", title: "Dashboard", icon: "dashboard", letter: "d", component: DashboardView },
  { id: "ops", title: "Ops and kernels", icon: "ops", letter: "o", component: OpsView },
  {
    id: "iterations",
    title: "Iterations",
    icon: "iterations",
    letter: "i",
    component: IterationsView,
  },
];

export function findView(id: string | undefined): ViewSpec | null {
  if (id === undefined) return VIEWS[0];
  return VIEWS.find((view) => view.id === id) ?? null;
}
