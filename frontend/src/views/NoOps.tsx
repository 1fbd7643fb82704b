/** What stands where ops would be when the profile names none. */

import type { JSX } from "preact";
import { t } from "../i18n";
import { Empty } from "../ui/states";

export function NoOps({ reason }: { reason: string | null }): JSX.Element {
  return (
    <Empty title={t("No ops in this profile")}>
      {reason ??
        t(
          "It has no ranges that name ops. Run the training inside torch.autograd.profiler.emit_nvtx() to record them.",
        )}
    </Empty>
  );
}
