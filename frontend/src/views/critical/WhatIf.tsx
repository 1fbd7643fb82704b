/** The changes of a what-if, each with its effect, and the step with those that are combined. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "../../api/client";
import type {
  WhatIf as Answer,
  CriticalPath,
  OpSensitivities,
  WhatIfChange,
  WhatIfChanges,
} from "../../api/types";
import { useResource } from "../../api/useResource";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { durationText, formatFixed, formatPct } from "../../lib/units";
import { scopedUrl, useScope, useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { ErrorNote, Loaded, Skeleton, Unknown } from "../../ui/states";
import {
  aloneOf,
  effectOf,
  factor,
  isChosen,
  isSwitch,
  isUnchanged,
  opTypes,
  type Row,
  requestOf,
  rowsOf,
  type Scenario,
  SLIDER,
  TWICE,
  UNCHANGED,
  withRow,
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
        <Loaded resource={table} skeleton={<Skeleton lines={8} height={24} />}>
          {({ changes }) => (
            <div>
              <ChangeTable
                fit={fit}
                rows={rowsOf(changes, opTypes(ops.data?.ops ?? []), (rank) =>
                  t("Rank {rank} as fast as the median", { rank }),
                )}
                scenario={scenario}
                onChange={setScenario}
              />
              <div class="switches">
                {changes.map((change) => (
                  <Control
                    key={change.name}
                    change={change}
                    value={scenario.values[change.name] ?? ""}
                    onChange={(value) =>
                      setScenario({
                        ...scenario,
                        values: { ...scenario.values, [change.name]: value },
                      })
                    }
                  />
                ))}
              </div>
            </div>
          )}
        </Loaded>
        <Predicted fit={fit} scenario={scenario} onReset={() => setScenario(UNCHANGED)} />
      </div>
    </Panel>
  );
}

/** How many rows are predicted at a time: the server replays every step for each. */
const AT_ONCE = 2;
/** Parameter of the change of a rank, which goes with no other. */
const RANK = "rank_as_median";

type Answers = ReadonlyMap<string, Answer | ApiError>;

interface ChangeTableProps {
  readonly fit: CriticalPath;
  readonly rows: readonly Row[];
  readonly scenario: Scenario;
  readonly onChange: (scenario: Scenario) => void;
}

/** Each change by itself, the one with the largest effect first; check boxes combine them. */
function ChangeTable({ fit, rows, scenario, onChange }: ChangeTableProps): JSX.Element {
  const [answers, setAnswers] = useState<Answers>(new Map());
  const known = (key: string) => {
    const answer = answers.get(key);
    return answer instanceof Error ? undefined : answer;
  };
  const numAnswered = rows.filter((row) => answers.has(row.key)).length;
  const sorted = rows.toSorted((a, b) => effectOf(known(b.key)) - effectOf(known(a.key)) || 0);
  const largest = Math.max(...rows.map((row) => effectOf(known(row.key))), 1);
  return (
    <table class="facts-table changes">
      <caption class="visually-hidden">{t("Changes by their effect")}</caption>
      <thead>
        <tr>
          <th scope="col">{t("Change")}</th>
          <th scope="col" class="align-right">
            {fit.is_corrected ? t("Predicted step") : t("Step, as profiled")}
          </th>
          <th scope="col">{t("Effect")}</th>
          <th scope="col" class="align-right">
            {t("Saving")}
          </th>
        </tr>
      </thead>
      <tbody>
        {sorted.map((row) => (
          <ChangeRow
            key={row.key}
            fit={fit}
            row={row}
            isAsked={rows.indexOf(row) < numAnswered + AT_ONCE}
            largest={largest}
            scenario={scenario}
            onChange={onChange}
            onAnswer={(answer) =>
              setAnswers((now) =>
                now.get(row.key) === answer ? now : new Map(now).set(row.key, answer),
              )
            }
          />
        ))}
      </tbody>
    </table>
  );
}

/** Asks for the step of a scenario; nothing is asked without one. */
function usePrediction(fit: CriticalPath, scenario: Scenario | null) {
  const request = useThrottled(scenario === null ? null : JSON.stringify(requestOf(scenario)));
  const params = request === null ? {} : (JSON.parse(request) as Record<string, string>);
  const url = scopedUrl(
    useScope(),
    "what-if/",
    fit.is_corrected ? params : { ...params, corrected: "0" },
  );
  return useResource<Answer>(request === null ? null : url);
}

function ChangeRow(props: {
  fit: CriticalPath;
  row: Row;
  isAsked: boolean;
  largest: number;
  scenario: Scenario;
  onChange: (scenario: Scenario) => void;
  onAnswer: (answer: Answer | ApiError) => void;
}): JSX.Element {
  const { fit, row, isAsked, largest, scenario, onChange, onAnswer } = props;
  const { data, error, isStale } = usePrediction(fit, isAsked ? aloneOf(row, scenario) : null);
  const answer = error ?? data;
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each answer
  useEffect(() => {
    if (answer !== null && !isStale) onAnswer(answer);
  }, [answer, isStale]);
  const effect = error === null ? effectOf(data ?? undefined) : Number.NEGATIVE_INFINITY;
  const isNone = effect <= fit.measured_step_ns * LEAST_EFFECT;
  return (
    <tr class={isNone ? "is-none" : undefined}>
      <th scope="row" title={row.meaning}>
        <div class="change-name">
          <label>
            <input
              type="checkbox"
              checked={isChosen(row, scenario)}
              onChange={(event) =>
                onChange(withRow(row, event.currentTarget.checked, scenario, RANK))
              }
            />
            {row.opType === null ? row.label : <span class="slider-name">{row.label}</span>}
          </label>
          {row.opType !== null && (
            <Speed type={row.opType} scenario={scenario} onChange={onChange} />
          )}
        </div>{" "}
      </th>
      {error === null ? (
        <>
          <td class="align-right">
            {data?.predicted_step_ns == null ? "…" : durationText(data.predicted_step_ns)}
          </td>
          <td class="effect-cell">
            <span class="effect" aria-hidden="true">
              <i style={{ width: `${Math.max((100 * effect) / largest, 0)}%` }} />
            </span>
            {!isNone && (
              <span class="effect-text">
                −{formatPct((100 * effect) / Math.max(fit.measured_step_ns, 1))} %
              </span>
            )}
          </td>
          <td class="align-right">
            {isNone && Number.isFinite(effect) ? t("none") : <Saving answer={data} />}
          </td>
        </>
      ) : (
        <td colSpan={3} class="muted">
          {error.message}
        </td>
      )}
    </tr>
  );
}

/** A smaller share of the step is no effect. */
const LEAST_EFFECT = 0.001;

/** What is known to be saved; of CPU time that may be the profiler's, nothing is. */
function Saving({ answer }: { answer: Answer | null }): JSX.Element {
  if (answer === null || answer.predicted_step_ns === null) return <>…</>;
  if (answer.saving_ns === null) {
    return (
      <Unknown
        reason={t("The time is of the CPU, and may be the profiler's: its cost is unknown.")}
      />
    );
  }
  const text = durationText(Math.max(answer.saving_ns, 0));
  return <>{answer.is_bound === true ? t("up to {time}", { time: text }) : text}</>;
}

function Speed(props: {
  type: string;
  scenario: Scenario;
  onChange: (scenario: Scenario) => void;
}): JSX.Element {
  const { type, scenario, onChange } = props;
  const position = scenario.sliders[type] ?? TWICE;
  const speed = t("{factor}x", { factor: formatFixed(factor(position), 2) });
  return (
    <span class="slider">
      <input
        type="range"
        min={SLIDER.min}
        max={SLIDER.max}
        step={SLIDER.step}
        value={position}
        aria-label={t("Speed of {type}", { type })}
        aria-valuetext={speed}
        onInput={(event) => {
          const sliders = { ...scenario.sliders, [type]: Number(event.currentTarget.value) };
          onChange({ ...scenario, sliders });
        }}
      />
      <output>{speed}</output>
    </span>
  );
}

interface ValueProps {
  readonly change: WhatIfChange;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** A change that needs a value; the table has the others. */
function Control({ change, value, onChange }: ValueProps): JSX.Element | null {
  const { takes, label, meaning, unit } = change;
  if (isSwitch(change) || takes === "factors" || takes === "rank") return null;
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
  const answer = usePrediction(fit, scenario);
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
              ? t("Unchanged: choose changes to combine them.")
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
