/** A command line with a button that copies it. */

import { t } from "../i18n";
import { IconButton } from "./Button";
import { useCopy } from "./states";

export function CopyCommand({ command }: { command: string }) {
  const [isCopied, copy] = useCopy(() => command);
  return (
    <span class="copy-command">
      <code>{command}</code>
      <IconButton
        icon={isCopied ? "check" : "copy"}
        label={t("Copy the command")}
        size={14}
        onClick={copy}
      />
    </span>
  );
}
