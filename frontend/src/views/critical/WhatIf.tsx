/** Sliders and switches, and the predicted step at once. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { WhatIf as Answer, CriticalPath, OpSensitivities } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { durationText, formatFixed, formatPct } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { ErrorNote, Loaded, Skeleton } from "../../ui/states";
import {
  type Change,
  factor,
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

const SWITCHES: readonly (readonly [name: string, text: string])[] = [
  ["no_sync", t("No call waits for the GPU")],
  ["graph_launch", t("One launch (CUDA graph)")],
  ["tensor_cores", t("Tensor Cores")],
  ["half_precision", t("Half precision")],
  ["channels_last", t("Channels last")],
  ["roofline", t("All work at the roofline")],
  ["data_ready", t("Data always ready")],
  ["overlap_communication", t("Communication overlapped")],
  ["no_communication", t("Communication free")],
];

export function WhatIf({ fit }: { fit: CriticalPath }): JSX.Element {
  const ops = useScoped<OpSensitivities>("op-sensitivity/");
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
          <Switches scenario={scenario} onChange={setScenario} />
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

function Switches({ scenario, onChange }: ControlProps): JSX.Element {
  const toggle = (name: string, isOn: boolean) => {
    const switches = new Set(scenario.switches);
    if (isOn) switches.add(name);
    else switches.delete(name);
    onChange({ ...scenario, switches });
  };
  return (
    <div class="switches">
      {SWITCHES.map(([name, text]) => (
        <label key={name}>
          <input
            type="checkbox"
            checked={scenario.switches.has(name)}
            onChange={(event) => toggle(name, event.currentTarget.checked)}
          />
          {text}
        </label>
      ))}
    </div>
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
    fit.is_corrected ? { ...request, corrected: "1" } : request,
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
