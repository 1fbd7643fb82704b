/** A modal dialog on the browser's own <dialog>: focus stays inside, Esc closes, focus returns. */

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import { IconButton } from "./Button";

export interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly size?: "small" | "large";
  readonly footer?: ComponentChildren;
  /** Text without a control of its own: the focus is on it, so that keys scroll it. */
  readonly isText?: boolean;
  readonly children: ComponentChildren;
}

export function Dialog({ title, onClose, size, footer, isText, children }: DialogProps) {
  const titleId = useId();
  const element = useRef<HTMLDialogElement>(null);
  // Before the next key: what is typed after the key that opens a dialog is for its field.
  useLayoutEffect(() => {
    const dialog = element.current;
    if (dialog === null) return;
    dialog.showModal();
    dialog.querySelector<HTMLElement>("[data-initial], [data-search]")?.focus();
    return () => dialog.close();
  }, []);
  return (
    <dialog
      ref={element}
      class={`dialog dialog-${size ?? "small"}`}
      aria-labelledby={titleId}
      onCancel={(event) => {
        // A file picker that is closed without a choice also sends "cancel".
        if (event.target !== element.current) return;
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div class="dialog-frame">
        <header class="dialog-head">
          <h2 id={titleId}>{title}</h2>
          <IconButton icon="close" label={t("Close")} onClick={onClose} />
        </header>
        {isText === true ? (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by key
          <section class="dialog-body" tabIndex={0} data-initial aria-labelledby={titleId}>
            {children}
          </section>
        ) : (
          <div class="dialog-body">{children}</div>
        )}
        {footer !== undefined && <footer class="dialog-foot">{footer}</footer>}
      </div>
    </dialog>
  );
}
