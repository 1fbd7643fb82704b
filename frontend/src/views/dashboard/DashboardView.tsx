/** The dashboard: what limits a step and what to do about it on the first screen, then the details. */

import { useCallback } from "preact/hooks";
import { t } from "../../i18n";
import { navigate, useQuery } from "../../state/location";
import { DetailsPane } from "../../ui/DetailsPane";
import { useIsAllKnown } from "./arriving";
import { FindingsPanel } from "./FindingsPanel";
import { GuidancePanel } from "./GuidancePanel";
import { Headline } from "./Headline";
import { IterationSummaryPanel } from "./IterationSummaryPanel";
import { KERNEL_DETAILS, KernelDetails, KernelTimePanel } from "./KernelTimePanel";
import { NamesPanel } from "./NamesPanel";
import { PerformanceSummary } from "./PerformanceSummary";
import { PhasesPanel } from "./PhasesPanel";
import { SystemConfigPanel } from "./SystemConfigPanel";
import { TopPanel } from "./TopPanel";

export function DashboardView() {
  const areDetailsOpen = useQuery().get("details") === KERNEL_DETAILS;
  const isKnown = useIsAllKnown();
  const close = useCallback(() => navigate({ details: null }), []);
  return (
    <div class="view with-details">
      <div class="grid-frame">
        <div class={`grid ${isKnown ? "" : "is-arriving"}`}>
          <h1 class="visually-hidden">{t("Dashboard")}</h1>
          <Headline />
          <FindingsPanel />
          <div class="span-5 column">
            <IterationSummaryPanel />
            <KernelTimePanel isOpen={areDetailsOpen} />
          </div>
          <TopPanel />
          <PhasesPanel />
          <PerformanceSummary />
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
