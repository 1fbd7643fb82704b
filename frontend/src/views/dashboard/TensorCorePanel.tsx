/** Of the kernel time in ops that could use Tensor Cores: how much does. */

import type { JSX } from "preact";
import type { TensorCoreEfficiency } from "../../api/types";
import { ChartMenu } from "../../charts/ChartMenu";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded } from "../../ui/states";
import { StackedBar } from "./StackedBar";

export function TensorCorePanel(): JSX.Element {
  const efficiency = useScoped<TensorCoreEfficiency>("tensor-core-efficiency/");
  return (
    <Panel
      title={t("Tensor Core kernel efficiency")}
      info={EXPLANATIONS.tcEfficiency}
      span={4}
      actions={<ChartMenu figure="tensor-core-efficiency" />}
    >
      <Loaded resource={efficiency}>
        {(data) => {
          const { using_tc_pct: using, not_using_tc_pct: notUsing } = data;
          if (using === null || notUsing === null) {
            const reason = data.unknown?.using_tc_pct;
            return (
              <Empty title={reason === undefined ? t("No op is eligible") : t("Not known.")}>
                {reason ?? t("No kernel time in ops that could use Tensor Cores.")}
              </Empty>
            );
          }
          return (
            <>
              <p class="panel-lead">{t("Kernel time in eligible ops")}</p>
              <StackedBar
                label={t("Tensor Core kernel efficiency")}
                slices={[
                  { key: "tc", label: t("Using Tensor Cores"), value: using },
                  { key: "non_tc", label: t("Not using Tensor Cores"), value: notUsing },
                ]}
              />
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
