/** The dashboard: read in ten seconds from the top, and the guide's ten panels in all. */

import type { JSX } from "preact";
import { useCallback } from "preact/hooks";
import { DetailsPane } from "../../frame/DetailsPane";
import { t } from "../../i18n";
import { navigate, useQuery } from "../../state/location";
import { GpuUtilizationPanel } from "./GpuUtilizationPanel";
import { GuidancePanel } from "./GuidancePanel";
import { IterationSummaryPanel } from "./IterationSummaryPanel";
import { KERNEL_DETAILS, KernelDetails, KernelTimePanel } from "./KernelTimePanel";
import { PerformanceSummary } from "./PerformanceSummary";
import { RecommendationsPanel } from "./RecommendationsPanel";
import { ResourceUsagePanel } from "./ResourceUsagePanel";
import { SystemConfigPanel } from "./SystemConfigPanel";
import { TensorCorePanel } from "./TensorCorePanel";
import { TopOpsPanel } from "./TopOpsPanel";

export function DashboardView(): JSX.Element {
  const areDetailsOpen = useQuery().get("details") === KERNEL_DETAILS;
  const close = useCallback(() => navigate({ details: null }), []);
  return (
    <div class="view with-details">
      <div class="grid-frame">
        <div class="grid">
          <h1 class="visually-hidden">{t("Dashboard")}</h1>
          <PerformanceSummary />
          <ResourceUsagePanel />
          <IterationSummaryPanel />
          <TopOpsPanel />
          <RecommendationsPanel />
          <GpuUtilizationPanel />
          <KernelTimePanel isOpen={areDetailsOpen} />
          <TensorCorePanel />
          <SystemConfigPanel />
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
