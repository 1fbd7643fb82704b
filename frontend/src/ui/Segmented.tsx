/** A row of buttons of which one is pressed: one choice out of a few. */

export function Segmented<Value>(props: {
  label: string;
  choices: readonly (readonly [value: Value, text: string])[];
  value: Value;
  onChange: (value: Value) => void;
}) {
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
