/** Buttons that submit no form. */

import type { ButtonHTMLAttributes } from "preact";
import { Icon, type IconName } from "./icons";

/** `class` replaces the looks of a plain one. */
export function Button({ class: look = "button", ...rest }: ButtonHTMLAttributes) {
  return <button type="button" class={look} {...rest} />;
}

interface IconButtonProps extends Omit<ButtonHTMLAttributes, "label" | "icon" | "size"> {
  readonly icon: IconName;
  /** Its name, and its tooltip unless it has a `title`. */
  readonly label: string;
  readonly size?: number;
}

/** A button with an icon only. */
export function IconButton({ icon, label, size = 16, class: more, ...rest }: IconButtonProps) {
  const look = more === undefined ? "icon-button" : `icon-button ${more}`;
  return (
    <Button aria-label={label} title={label} {...rest} class={look}>
      <Icon name={icon} size={size} />
    </Button>
  );
}
