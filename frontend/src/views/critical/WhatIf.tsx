/** Sliders and switches, and the predicted step at once. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type {
  WhatIf as Answer,
  CriticalPath,
  OpSensitivities,
  WhatIfChange,
  WhatIfChanges,
} from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { durationText, formatFixed, formatPct } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { ErrorNote, Loaded, Skeleton } from "../../ui/states";
import {
  type Change,
  factor,
  isSwitch,
  isUnchanged,
  opTypes,
  requestOf,
  type Scenario,
  SLIDER,
  UNCHANGED,
} from "./scenario";

/** Between two requests while a slider is dragged. */
const PAUSE_MS = 60;

const KINDS: Readonly<Record<string, string>> = {
  kernel: t("Kernels"),
  copy: t("Copies"),
  set: t("Memory sets"),
  graph: t("CUDA graphs"),
  communication: t("Communication"),
  call: t("CUDA calls"),
  cpu: t("Work on the CPU"),
  before: t("Python before an op"),
  loader: t("Data loader"),
  launch: t("Launches"),
  gap: t("Gaps between kernels"),
  return: t("Return of waiting calls"),
  event: t("Events"),
  thread: t("Other threads"),
  wait: t("Waiting"),
  unexplained: t("Unexplained"),
};

export function kindName(kind: string): string {
  return KINDS[kind] ?? kind;
}

export function WhatIf({ fit }: { fit: CriticalPath }): JSX.Element {
  const ops = useScoped<OpSensitivities>("op-sensitivity/");
  const table = useScoped<WhatIfChanges>("what-if/changes/");
  const [scenario, setScenario] = useState<Scenario>(UNCHANGED);
  return (
    <Panel title={t("What if")} info={EXPLANATIONS.whatIf} span={12}>
      <div class="what-if">
        <div>
          <Loaded resource={ops} skeleton={<Skeleton lines={5} height={22} />}>
            {(found) => (
              <Sliders changes={opTypes(found.ops)} scenario={scenario} onChange={setScenario} />
            )}
          </Loaded>
          <Loaded resource={table} skeleton={<Skeleton lines={2} height={22} />}>
            {({ changes }) => (
              <Controls changes={changes} scenario={scenario} onChange={setScenario} />
            )}
          </Loaded>
        </div>
        <Predicted fit={fit} scenario={scenario} onReset={() => setScenario(UNCHANGED)} />
      </div>
    </Panel>
  );
}

interface ControlProps {
  readonly scenario: Scenario;
  readonly onChange: (scenario: Scenario) => void;
}

function Sliders(props: ControlProps & { readonly changes: readonly Change[] }): JSX.Element {
  const { changes, scenario, onChange } = props;
  return (
    <>
      {changes.map(({ name, ownNs }) => {
        const position = scenario.sliders[name] ?? 0;
        const speed = t("{factor} x as fast", { factor: formatFixed(factor(position), 2) });
        return (
          <label class="slider" key={name}>
            <span class="slider-name" title={name}>
              {name}
            </span>
            <span class="muted">{durationText(ownNs)}</span>
            <input
              type="range"
              min={SLIDER.min}
              max={SLIDER.max}
              step={SLIDER.step}
              value={position}
              aria-valuetext={speed}
              onInput={(event) =>
                onChange({
                  ...scenario,
                  sliders: { ...scenario.sliders, [name]: Number(event.currentTarget.value) },
                })
              }
            />
            <output>{speed}</output>
          </label>
        );
      })}
    </>
  );
}

/** The changes that the server declares, but the sliders. */
function Controls(props: ControlProps & { readonly changes: readonly WhatIfChange[] }) {
  const { changes, scenario, onChange } = props;
  const set = (name: string, value: string) => {
    onChange({ ...scenario, values: { ...scenario.values, [name]: value } });
  };
  const control = (change: WhatIfChange) => (
    <Control
      key={change.name}
      change={change}
      value={scenario.values[change.name] ?? ""}
      onChange={(value) => set(change.name, value)}
    />
  );
  return (
    <>
      <div class="switches">{changes.filter(isSwitch).map(control)}</div>
      <div class="switches">{changes.filter((change) => !isSwitch(change)).map(control)}</div>
    </>
  );
}

interface ValueProps {
  readonly change: WhatIfChange;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function Control({ change, value, onChange }: ValueProps): JSX.Element | null {
  const { takes, label, meaning, unit, choices } = change;
  if (takes === "factors" || (takes === "rank" && choices.length === 0)) return null;
  if (isSwitch(change)) {
    return (
      <label title={meaning}>
        <input
          type="checkbox"
          checked={value === "1"}
          onChange={(event) => onChange(event.currentTarget.checked ? "1" : "")}
        />
        {label}
      </label>
    );
  }
  if (takes === "rank") {
    return (
      <label title={meaning}>
        {label}
        <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          <option value="">–</option>
          {choices.map((rank) => (
            <option key={rank}>{rank}</option>
          ))}
        </select>
      </label>
    );
  }
  const read = (event: { readonly currentTarget: HTMLInputElement }) =>
    onChange(event.currentTarget.value.trim());
  if (takes === "number") {
    return (
      <label title={meaning}>
        {label}
        <input type="number" min={0} step="any" value={value} onChange={read} />
        {unit}
      </label>
    );
  }
  return (
    <label title={meaning}>
      {label}
      <input type="text" placeholder={t("op type; op; kernel")} value={value} onChange={read} />
    </label>
  );
}

/** A value that changes at most once in a while: also while a slider moves. */
function useThrottled<T>(value: T): T {
  const [shown, setShown] = useState(value);
  const changed = useRef(0);
  useEffect(() => {
    const rest = changed.current + PAUSE_MS - Date.now();
    const timer = window.setTimeout(
      () => {
        changed.current = Date.now();
        setShown(value);
      },
      Math.max(rest, 0),
    );
    return () => window.clearTimeout(timer);
  }, [value]);
  return shown;
}

function difference(before: number, after: number, interval: readonly number[] | null): string {
  const values = {
    share: formatPct(Math.abs((100 * (before - after)) / Math.max(before, 1))),
    before: durationText(before),
    low: durationText(interval?.[0] ?? after),
    high: durationText(interval?.[1] ?? after),
  };
  return after > before
    ? t("{share} % more than {before}; 10th to 90th percentile {low} to {high}", values)
    : t("{share} % less than {before}; 10th to 90th percentile {low} to {high}", values);
}

interface PredictedProps {
  readonly fit: CriticalPath;
  readonly scenario: Scenario;
  readonly onReset: () => void;
}

function Predicted({ fit, scenario, onReset }: PredictedProps): JSX.Element {
  const request = requestOf(useThrottled(scenario));
  const answer = useScoped<Answer>(
    "what-if/",
    fit.is_corrected ? request : { ...request, corrected: "0" },
  );
  const before = fit.measured_step_ns;
  const step = answer.data?.predicted_step_ns ?? null;
  const after = step ?? before;
  const interval = answer.data?.interval_ns ?? null;
  return (
    <div class="predicted">
      <p class="predicted-label">{t("Predicted step")}</p>
      {answer.error !== null ? (
        <ErrorNote error={answer.error} />
      ) : (
        <>
          <p class="predicted-step" role="status">
            {durationText(after)}
          </p>
          <p class="muted">
            {step === null
              ? t("Unchanged: move a slider or choose a change.")
              : difference(before, after, interval)}
          </p>
        </>
      )}
      {answer.data?.is_bound === true && (
        <p class="muted">{t("A bound: with this change, other kernels would run.")}</p>
      )}
      <button type="button" class="button" disabled={isUnchanged(scenario)} onClick={onReset}>
        {t("Reset")}
      </button>
    </div>
  );
}
