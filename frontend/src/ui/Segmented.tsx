/** A row of buttons of which one is pressed: one choice out of a few. */

import type { JSX } from "preact";

export interface SegmentedProps<Value> {
  readonly label: string;
  readonly choices: readonly (readonly [value: Value, text: string])[];
  readonly value: Value;
  readonly onChange: (value: Value) => void;
}

export function Segmented<Value>(props: SegmentedProps<Value>): JSX.Element {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset draws a frame of its own
    <div class="segmented" role="group" aria-label={props.label}>
      {props.choices.map(([value, text]) => (
        <button
          key={text}
          type="button"
          aria-pressed={value === props.value}
          onClick={() => props.onChange(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
