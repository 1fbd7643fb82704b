/** A button with an icon only; its name is for screen readers and the tooltip. */

import type { JSX } from "preact";
import { Icon, type IconName } from "./icons";

export interface IconButtonProps {
  readonly icon: IconName;
  readonly label: string;
  /** The tooltip; the label if left out. */
  readonly title?: string;
  readonly class?: string;
  readonly isExpanded?: boolean;
  readonly onClick: () => void;
}

export function IconButton(props: IconButtonProps): JSX.Element {
  const { icon, label, title, isExpanded, onClick } = props;
  return (
    <button
      type="button"
      class={props.class === undefined ? "icon-button" : `icon-button ${props.class}`}
      aria-label={label}
      aria-expanded={isExpanded}
      title={title ?? label}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  );
}
