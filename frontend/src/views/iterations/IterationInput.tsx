/** An iteration number: type it, use the arrows, or turn the wheel over it. */

import { useEffect, useId, useRef } from "preact/hooks";
import { type LastIndex, stepped } from "./reaggregation";

export function IterationInput(props: {
  label: string;
  value: number | null;
  last: LastIndex;
  isOff: boolean;
  onChange: (value: number) => void;
}) {
  const { label, value, last, onChange } = props;
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const element = input.current;
    if (element === null) return;
    const onWheel = (event: WheelEvent) => {
      const now = latest.current;
      if (now.isOff || event.deltaY === 0) return;
      // Without this the page would scroll away from under the pointer.
      event.preventDefault();
      now.onChange(stepped(now.value, event.deltaY < 0 ? 1 : -1, now.last));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, []);
  return (
    <span class="field">
      <label class="field-label" for={id}>
        {label}
      </label>
      <input
        ref={input}
        id={id}
        class="input input-number"
        type="number"
        min={0}
        max={last ?? undefined}
        step={1}
        disabled={props.isOff}
        value={value ?? ""}
        onInput={(event) => {
          const typed = event.currentTarget.valueAsNumber;
          if (Number.isInteger(typed) && typed >= 0) onChange(typed);
        }}
      />
    </span>
  );
}
