/** A box in the browser's top layer beside the button that opened it: menus and explanations. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import { openDocs } from "../state/location";
import { Icon } from "./icons";

const GAP = 6;
const MARGIN = 8;

/** Below the anchor where there is room, else above; never outside of the window. */
export function placeBeside(
  anchor: DOMRect,
  box: DOMRect,
  align: "start" | "end",
): [number, number] {
  const wanted = align === "start" ? anchor.left : anchor.right - box.width;
  const left = Math.max(MARGIN, Math.min(wanted, window.innerWidth - box.width - MARGIN));
  const below = anchor.bottom + GAP;
  const fitsBelow = below + box.height + MARGIN <= window.innerHeight;
  const top = fitsBelow ? below : Math.max(MARGIN, anchor.top - box.height - GAP);
  return [left, top];
}

function place(anchor: HTMLElement, box: HTMLElement, align: "start" | "end"): void {
  const [left, top] = placeBeside(
    anchor.getBoundingClientRect(),
    box.getBoundingClientRect(),
    align,
  );
  box.style.left = `${left}px`;
  box.style.top = `${top}px`;
}

/** A button with a panel below it. A click outside or Esc closes it (the browser does that). */
export function MenuButton(props: {
  label: string;
  /** Shown in the button; the label is its accessible name. */
  face: ComponentChildren;
  class?: string;
  align?: "start" | "end";
  children: ComponentChildren | (() => ComponentChildren);
}) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const panel = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const box = panel.current;
    if (!isOpen || button.current === null || box === null) return;
    place(button.current, box, props.align ?? "end");
    // What leads away or saves a file has nothing more to say.
    const close = (event: MouseEvent) => {
      const item = (event.target as HTMLElement).closest("a.menu-item, [data-closes]");
      if (item !== null) box.hidePopover();
    };
    box.addEventListener("click", close);
    return () => box.removeEventListener("click", close);
  }, [isOpen, props.align]);
  const { children } = props;
  return (
    <>
      <button
        ref={button}
        type="button"
        class={props.class ?? "button"}
        popovertarget={id}
        aria-expanded={isOpen}
        aria-label={props.label}
        title={props.label}
      >
        {props.face}
      </button>
      <div
        ref={panel}
        id={id}
        popover="auto"
        class="menu"
        onToggle={(event) => setOpen(event.newState === "open")}
      >
        {isOpen && (typeof children === "function" ? children() : children)}
      </div>
    </>
  );
}

/** What a figure's info icon answers. */
export interface Explanation {
  readonly what: string;
  readonly how: string;
  readonly advice: string;
}

const HIDE_MS = 140;

/** The (i) beside a figure: opens on hover, focus and click; read out as its description. */
export function InfoTip({ about, text }: { about: string; text: Explanation }) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const panel = useRef<HTMLDivElement>(null);
  const timer = useRef(0);
  const show = () => {
    window.clearTimeout(timer.current);
    const [anchor, box] = [button.current, panel.current];
    if (anchor === null || box === null || box.matches(":popover-open")) return;
    box.showPopover();
    place(anchor, box, "start");
  };
  const hide = () => {
    if (panel.current?.matches(":popover-open")) panel.current.hidePopover();
  };
  // The pointer may cross the gap to the text, to read on or to select it.
  const hideSoon = () => {
    timer.current = window.setTimeout(hide, HIDE_MS);
  };
  return (
    <span class="infotip">
      <button
        ref={button}
        type="button"
        class="infotip-button"
        aria-label={t("About {subject}", { subject: about })}
        aria-describedby={id}
        onMouseEnter={show}
        onMouseLeave={hideSoon}
        onFocus={show}
        onBlur={(event) => {
          // Tab and clicks may go on to the link below the text.
          if (!panel.current?.contains(event.relatedTarget as Node | null)) hide();
        }}
        onClick={show}
        onKeyDown={(event) => {
          if (event.key !== "Escape" || !panel.current?.matches(":popover-open")) return;
          event.preventDefault();
          hide();
        }}
      >
        <Icon name="info" size={14} />
      </button>
      <div
        ref={panel}
        id={id}
        popover="manual"
        role="tooltip"
        class="tip"
        onMouseEnter={show}
        onMouseLeave={hideSoon}
        onFocusOut={(event) => {
          if (!panel.current?.contains(event.relatedTarget as Node | null)) hide();
        }}
      >
        <p>{text.what}</p>
        <p>
          <b>{t("How")}</b> {text.how}
        </p>
        <p>
          <b>{t("What to do")}</b> {text.advice}
        </p>
        <button
          type="button"
          class="link-button"
          onClick={() => {
            hide();
            openDocs();
          }}
        >
          {t("Read more")}
        </button>
      </div>
    </span>
  );
}
