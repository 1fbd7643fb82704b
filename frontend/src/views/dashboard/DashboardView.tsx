/** The dashboard: the figures, what limits a step and what to do about it, then the details. */

import type { JSX } from "preact";
import { useCallback } from "preact/hooks";
import { t } from "../../i18n";
import { navigate, useQuery } from "../../state/location";
import { DetailsPane } from "../../ui/DetailsPane";
import { useAreFiguresKnown, useIsAdviceKnown } from "./arriving";
import { GuidancePanel } from "./GuidancePanel";
import { IterationSummaryPanel } from "./IterationSummaryPanel";
import { KERNEL_DETAILS, KernelDetails, KernelTimePanel } from "./KernelTimePanel";
import { NamesPanel } from "./NamesPanel";
import { PerformanceSummary } from "./PerformanceSummary";
import { PhasesPanel } from "./PhasesPanel";
import { RecommendationsPanel } from "./RecommendationsPanel";
import { ResourceUsagePanel } from "./ResourceUsagePanel";
import { SystemConfigPanel } from "./SystemConfigPanel";
import { TopPanel } from "./TopPanel";

export function DashboardView(): JSX.Element {
  const areDetailsOpen = useQuery().get("details") === KERNEL_DETAILS;
  const areFiguresKnown = useAreFiguresKnown();
  const isAdviceKnown = useIsAdviceKnown();
  const missing = areFiguresKnown ? (isAdviceKnown ? "" : "needs-advice") : "needs-figures";
  const close = useCallback(() => navigate({ details: null }), []);
  return (
    <div class="view with-details">
      <div class="grid-frame">
        <div class={`grid ${missing}`}>
          <h1 class="visually-hidden">{t("Dashboard")}</h1>
          <PerformanceSummary />
          <RecommendationsPanel />
          <ResourceUsagePanel />
          <IterationSummaryPanel />
          <PhasesPanel />
          <TopPanel />
          <KernelTimePanel isOpen={areDetailsOpen} />
          <SystemConfigPanel />
          <NamesPanel />
          <GuidancePanel />
        </div>
      </div>
      {areDetailsOpen && (
        <DetailsPane title={t("Kernel details")} onClose={close}>
          <KernelDetails />
        </DetailsPane>
      )}
    </div>
  );
}
