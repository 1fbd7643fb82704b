import { t } from "../i18n";
import { choosePerStep, useHasSteps, useScale } from "../lib/perStep";
import { Segmented } from "./Segmented";

/** Shows all sums of the page per step, or in total; without steps there is no choice. */
export function ScaleSwitch() {
  const { isPerStep } = useScale();
  if (!useHasSteps()) return null;
  return (
    <Segmented
      label={t("Times and counts")}
      value={isPerStep}
      choices={[
        [true, t("per step")],
        [false, t("total")],
      ]}
      onChange={choosePerStep}
    />
  );
}
