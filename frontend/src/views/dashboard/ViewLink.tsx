/** A link to another view, with the filters that show what a figure is made of. */

import type { ComponentChildren } from "preact";
import { currentQuery } from "../../state/location";
import { patchForView, type QueryPatch } from "../../state/query";
import { PageAnchor } from "../../ui/PageLink";

export function ViewLink(props: {
  view: string;
  patch?: QueryPatch;
  class?: string;
  children: ComponentChildren;
}) {
  const { view, patch, children } = props;
  const to = () => ({ ...patchForView(currentQuery(), view), ...patch });
  return (
    <PageAnchor to={to} class={props.class ?? "panel-link"}>
      {children}
    </PageAnchor>
  );
}
