/** Of the kernel time in ops that could use Tensor Cores: how much does. */

import type { JSX } from "preact";
import type { TensorCoreEfficiency } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded } from "../../ui/states";
import { StackedBar } from "./StackedBar";

export function TensorCorePanel(): JSX.Element {
  const efficiency = useScoped<TensorCoreEfficiency>("tensor-core-efficiency/");
  return (
    <Panel title="Tensor Core kernel efficiency" info={EXPLANATIONS.tcEfficiency} span={4}>
      <Loaded resource={efficiency}>
        {(data) => {
          const { using_tc_pct: using, not_using_tc_pct: notUsing } = data;
          if (using === null || notUsing === null) {
            return (
              <Empty title="No op is eligible">
                {data.unknown?.using_tc_pct ?? "No kernel time in ops that could use Tensor Cores."}
              </Empty>
            );
          }
          return (
            <>
              <p class="panel-lead">Kernel time in eligible ops</p>
              <StackedBar
                label="Tensor Core kernel efficiency"
                slices={[
                  { key: "tc", label: "Using Tensor Cores", value: using },
                  { key: "non_tc", label: "Not using Tensor Cores", value: notUsing },
                ]}
              />
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
