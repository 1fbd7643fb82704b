/** A link to another view, with the filters that show what a figure is made of. */

import type { ComponentChildren } from "preact";
import { currentQuery, hrefWith, isPlainClick, navigate } from "../../state/location";
import { patchForView, type QueryPatch } from "../../state/query";

export function ViewLink(props: {
  view: string;
  patch?: QueryPatch;
  class?: string;
  title?: string;
  children: ComponentChildren;
}) {
  const target = () => ({ ...patchForView(currentQuery(), props.view), ...props.patch });
  const open = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    navigate(target());
  };
  return (
    <a
      class={props.class ?? "panel-link"}
      href={hrefWith(target())}
      title={props.title}
      onClick={open}
    >
      {props.children}
    </a>
  );
}
