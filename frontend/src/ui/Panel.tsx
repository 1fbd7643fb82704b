/** A titled part of a page. */

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { type Explanation, InfoTip } from "./Popover";

export function Panel(props: {
  title: string;
  info?: Explanation;
  /** Columns of the 12 that it takes. */
  span: number;
  unit?: string;
  actions?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}) {
  const titleId = useId();
  return (
    <section class={`panel span-${props.span} ${props.class ?? ""}`} aria-labelledby={titleId}>
      <header class="panel-head">
        <h2 id={titleId}>
          {props.title}
          {props.unit !== undefined && <span class="panel-unit"> {props.unit}</span>}
        </h2>
        {props.info !== undefined && <InfoTip about={props.title} text={props.info} />}
        <div class="panel-actions">{props.actions}</div>
      </header>
      <div class="panel-body">{props.children}</div>
    </section>
  );
}
