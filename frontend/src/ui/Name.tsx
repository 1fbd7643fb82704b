/** Names of ops and kernels: monospace, cut in the middle, whole on hover and in a copy. */

import { t } from "../i18n";
import { splitMiddle } from "../lib/text";
import { Icon } from "./icons";

export interface NameProps {
  readonly name: string;
  /** The name on hover and in a copy, where `name` is a shorter one for people. */
  readonly full?: string;
  /** What is drawn of it where it is known how much room there is; left out: its ends. */
  readonly short?: string | undefined;
}

export function Name({ name, full = name, short }: NameProps) {
  const [head, tail] = short === undefined ? splitMiddle(name) : [short, ""];
  // Two boxes side by side would be copied as two lines: the clipboard gets the name itself.
  const copyWhole = (event: ClipboardEvent) => {
    event.clipboardData?.setData("text/plain", full);
    event.preventDefault();
  };
  return (
    <span class="name" title={full} onCopy={copyWhole}>
      {head === name ? (
        <span class="name-head">{head}</span>
      ) : (
        <>
          <span class="visually-hidden">{name}</span>
          <span class={short === undefined ? "name-head" : "name-short"} aria-hidden="true">
            {head}
          </span>
          {tail !== "" && (
            <span class="name-tail" aria-hidden="true">
              {tail}
            </span>
          )}
        </>
      )}
    </span>
  );
}

/** A yes/no cell as check or cross, with the word for those who do not see it; `warn` says why a
 * no deserves attention. */
export function Flag({ value, warn }: { value: boolean; warn?: string | undefined }) {
  const tone = value ? "yes" : warn === undefined ? "no" : "warn";
  return (
    <span class={`flag flag-${tone}`} title={warn}>
      <Icon name={value ? "check" : warn === undefined ? "cross" : "alert"} size={14} />
      <span class="visually-hidden">{value ? t("yes") : (warn ?? t("no"))}</span>
    </span>
  );
}

const DIRECTIONS: Readonly<Record<string, string>> = {
  fprop: t("Forward pass"),
  bprop: t("Backward pass"),
  recompute: t("Forward work that activation checkpointing runs again in the backward pass"),
};

/** The direction of an op, in a color of its own. */
export function Direction({ value }: { value: string }) {
  const meaning = DIRECTIONS[value];
  if (meaning === undefined) return <span>{value}</span>;
  return (
    <span class={`direction direction-${value}`} title={meaning}>
      {value}
    </span>
  );
}
