/** What stands where ops would be when the profile names none. */

import { t } from "../i18n";
import { useScope } from "../state/scope";
import { Empty } from "../ui/states";

/** `reason`: what the server says of the list; else the profile says why. */
export function NoOps({ reason }: { reason?: string | undefined }) {
  const { info } = useScope().profile;
  return (
    <Empty title={t("No ops in this profile")}>
      {reason ??
        info.no_ops_reason ??
        t(
          "It has no ranges that name ops. Run the training inside torch.autograd.profiler.emit_nvtx() to record them.",
        )}
    </Empty>
  );
}
