/** A titled part of a page. */

import type { ComponentChildren, JSX } from "preact";
import { useId } from "preact/hooks";
import { type Explanation, InfoTip } from "./Popover";

export interface PanelProps {
  readonly title: string;
  readonly info?: Explanation;
  /** Columns of the 12 that it takes. */
  readonly span: number;
  readonly unit?: string;
  readonly actions?: ComponentChildren;
  readonly class?: string;
  readonly children: ComponentChildren;
}

export function Panel(props: PanelProps): JSX.Element {
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
