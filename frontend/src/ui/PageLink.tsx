/** Links to the page of one op or one kernel. */

import type { AnchorHTMLAttributes, ComponentChildren } from "preact";
import { t } from "../i18n";
import { currentQuery, hrefWith, navigate } from "../state/location";
import { patchForView, type QueryPatch } from "../state/query";
import { Icon } from "./icons";
import { Name } from "./Name";

export function opPage(opId: string): QueryPatch {
  return { ...patchForView(currentQuery(), "op"), op: opId };
}

/** `name` is the full name; a short one stands for all kernels that share it. */
export function kernelPage(name: string): QueryPatch {
  return { ...patchForView(currentQuery(), "kernel"), kernel: name };
}

/** The timeline around an event: it takes a third of the width. */
export function timelineAt(startNs: number, timeNs: number): QueryPatch {
  const low = Math.round(startNs - timeNs);
  return {
    ...patchForView(currentQuery(), "timeline"),
    span: `${low}-${Math.round(startNs + 2 * timeNs)}`,
    range: `${Math.round(startNs)}-${Math.round(startNs + timeNs)}`,
  };
}

/** True for a plain left click, which the page may handle itself instead of the browser. */
function isPlainClick(event: MouseEvent): boolean {
  return event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
}

interface PageAnchorProps
  extends Omit<AnchorHTMLAttributes, "href" | "label" | "onClick" | "role"> {
  /** What changes in the address; a function is asked again when the link is followed. */
  readonly to: QueryPatch | (() => QueryPatch);
  readonly label?: string;
  readonly onFollow?: (() => void) | undefined;
}

/** A link within the page, which opens without loading it anew. */
export function PageAnchor({ to, label, onFollow, children, ...rest }: PageAnchorProps) {
  // The address may have other parameters by now than when the link was drawn.
  const ofView = (patch: QueryPatch) =>
    patch.view ? { ...patchForView(currentQuery(), patch.view), ...patch } : patch;
  const target = () => (typeof to === "function" ? to() : ofView(to));
  const follow = (event: MouseEvent) => {
    // The row around it is not selected.
    event.stopPropagation();
    if (!isPlainClick(event)) return;
    event.preventDefault();
    navigate(target());
    onFollow?.();
  };
  return (
    <a {...rest} href={hrefWith(target())} aria-label={label} onClick={follow}>
      {children}
    </a>
  );
}

interface RowPageProps {
  readonly to: QueryPatch;
  readonly label: string;
  readonly children: ComponentChildren;
}

/** A cell with a link to the page of its row. Tab reaches rows only; Shift+Enter follows the link. */
function WithPage({ to, label, children }: RowPageProps) {
  return (
    <span class="with-page">
      {children}
      <PageAnchor to={to} class="row-page" label={label} tabIndex={-1}>
        <Icon name="external" size={13} />
      </PageAnchor>
    </span>
  );
}

interface RowNameProps {
  readonly name: string;
  readonly short?: string | undefined;
}

export function OpName({ opId, name, short }: RowNameProps & { opId: string }) {
  return (
    <WithPage to={opPage(opId)} label={t("Page of this op")}>
      <Name name={name} short={short} />
    </WithPage>
  );
}

/** `name` for people; `full` identifies the kernel. */
export function KernelName(props: RowNameProps & { full: string }) {
  const { name, full, short } = props;
  return (
    <WithPage to={kernelPage(full)} label={t("Page of this kernel")}>
      <Name name={name} full={full} short={short} />
    </WithPage>
  );
}

/** Follows the link to the page of a row; false: the row has none. */
export function openPageOf(row: HTMLElement): boolean {
  const link = row.querySelector<HTMLElement>(".row-page:not(.row-timeline)");
  link?.click();
  return link !== null;
}
