/** A command line with a button that copies it. */

import type { JSX } from "preact";
import { t } from "../i18n";
import { Icon } from "./icons";
import { useCopy } from "./states";

export function CopyCommand({ command }: { command: string }): JSX.Element {
  const [isCopied, copy] = useCopy(() => command);
  return (
    <span class="copy-command">
      <code>{command}</code>
      <button type="button" class="icon-button" aria-label={t("Copy the command")} onClick={copy}>
        <Icon name={isCopied ? "check" : "copy"} size={14} />
      </button>
    </span>
  );
}
