import { t } from "../i18n";
import { choosePerStep, useScale } from "../lib/perStep";
import { Segmented } from "./Segmented";

/** Shows all sums of the page per step, or in total. */
export function ScaleSwitch() {
  return (
    <Segmented
      label={t("Times and counts")}
      value={useScale().isPerStep}
      choices={[
        [true, t("per step")],
        [false, t("total")],
      ]}
      onChange={choosePerStep}
    />
  );
}
