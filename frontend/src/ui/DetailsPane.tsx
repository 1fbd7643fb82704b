/** The pane that comes in from the right and pushes the content; Esc closes it. */

import type { ComponentChildren } from "preact";
import { useEffect, useId } from "preact/hooks";
import { t } from "../i18n";
import { isTyping } from "../state/keyboard";
import { IconButton } from "./Button";

export interface DetailsPaneProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function DetailsPane({ title, onClose, children }: DetailsPaneProps) {
  const titleId = useId();
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isBusy = event.defaultPrevented || isTyping(event.target);
      if (event.key !== "Escape" || isBusy) return;
      if (document.querySelector("dialog[open], :popover-open") !== null) return;
      onClose();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [onClose]);
  return (
    <aside class="details" aria-labelledby={titleId}>
      <header class="details-head">
        <h2 id={titleId}>{title}</h2>
        <IconButton icon="close" label={t("Close details")} onClick={onClose} />
      </header>
      <div class="details-body">{children}</div>
    </aside>
  );
}
