/** The changes of a what-if, each with its effect, and the step with those that are combined. */

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
import { navigate, useQuery } from "../../state/location";
import { scopedUrl, useScope, useScoped } from "../../state/scope";
import { Button } from "../../ui/Button";
import { Panel } from "../../ui/Panel";
import { ErrorNote, Loaded, Skeleton, Unknown } from "../../ui/states";
import {
  aloneOf,
  effectOf,
  hasSpeed,
  isChosen,
  isSwitch,
  isUnchanged,
  opTypes,
  patchOf,
  positionOf,
  type Row,
  rowsOf,
  type Scenario,
  SLIDER,
  scenarioOf,
  UNCHANGED,
  withRow,
  withSpeed,
  withValue,
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

/** What the steps wait for most. */
const LIMITS: Readonly<Record<string, string>> = {
  gpu: t("GPU"),
  cpu: t("CPU"),
  loader: t("Data loader"),
  communication: t("Communication"),
};

export function WhatIf({ fit }: { fit: CriticalPath }) {
  const ops = useScoped<OpSensitivities>("op-sensitivity/");
  const table = useScoped<WhatIfChanges>("what-if/changes/");
  const given = scenarioOf(useQuery());
  const [dragged, setDragged] = useState<Scenario | null>(null);
  const scenario = dragged ?? given;
  const choose = (next: Scenario) => {
    setDragged(null);
    navigate(patchOf(given, next), { replace: true });
  };
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
                onDrag={setDragged}
                onChange={choose}
              />
              <div class="switches">
                {changes.map((change) => (
                  <Control
                    key={change.name}
                    change={change}
                    value={scenario[change.name] ?? ""}
                    onChange={(value) => choose(withValue(change.name, value, scenario))}
                  />
                ))}
              </div>
            </div>
          )}
        </Loaded>
        <Predicted fit={fit} scenario={scenario} onReset={() => choose(UNCHANGED)} />
      </div>
    </Panel>
  );
}

/** How many rows are predicted at a time: the server replays every step for each. */
const AT_ONCE = 2;

type Answers = ReadonlyMap<string, Answer | ApiError>;

interface ChangesProps {
  readonly fit: CriticalPath;
  readonly scenario: Scenario;
  /** While a slider moves. */
  readonly onDrag: (scenario: Scenario) => void;
  readonly onChange: (scenario: Scenario) => void;
}

/** Each change by itself, the one with the largest effect first; check boxes combine them. */
function ChangeTable(props: ChangesProps & { rows: readonly Row[] }) {
  const { fit, rows } = props;
  const [answers, setAnswers] = useState<Answers>(new Map());
  const known = (row: Row) => {
    const answer = answers.get(row.label);
    return effectOf(answer instanceof Error ? undefined : answer);
  };
  const asked = rows.filter((row) => row.reason === null);
  const numAnswered = asked.filter((row) => answers.has(row.label)).length;
  const sorted = rows.toSorted(
    (a, b) => Number(a.reason !== null) - Number(b.reason !== null) || known(b) - known(a) || 0,
  );
  const largest = Math.max(...rows.map(known), 1);
  return (
    <table class="facts-table changes">
      <caption class="visually-hidden">{t("Changes by their effect")}</caption>
      <thead>
        <tr>
          <th scope="col">{t("Change")}</th>
          <th scope="col" class="align-right step-cell">
            {fit.is_recorded_span
              ? t("Recorded span")
              : fit.basis === "profiled"
                ? t("Step, as profiled")
                : t("Predicted step")}
          </th>
          <th scope="col">{t("Effect")}</th>
          <th scope="col" class="align-right saving-cell">
            {t("Saving")}
          </th>
          <th scope="col" class="limit-cell" title={t("What is waited for most after it")}>
            {t("Bound by next")}
          </th>
        </tr>
      </thead>
      <tbody>
        {sorted.map((row) => (
          <ChangeRow
            {...props}
            key={row.label}
            row={row}
            isAsked={row.reason === null && asked.indexOf(row) < numAnswered + AT_ONCE}
            largest={largest}
            onAnswer={(answer) =>
              setAnswers((now) =>
                now.get(row.label) === answer ? now : new Map(now).set(row.label, answer),
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
  const request = useThrottled(scenario === null ? null : JSON.stringify(scenario));
  const params = request === null ? {} : (JSON.parse(request) as Record<string, string>);
  const url = scopedUrl(
    useScope(),
    "what-if/",
    fit.is_corrected ? params : { ...params, corrected: "0" },
  );
  return useResource<Answer>(request === null ? null : url);
}

interface RowProps extends ChangesProps {
  readonly row: Row;
  readonly isAsked: boolean;
  readonly largest: number;
  readonly onAnswer: (answer: Answer | ApiError) => void;
}

function ChangeRow(props: RowProps) {
  const { fit, row, isAsked, largest, scenario, onChange, onAnswer } = props;
  const { data, error, isStale } = usePrediction(fit, isAsked ? aloneOf(row, scenario) : null);
  const answer = error ?? data;
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each answer
  useEffect(() => {
    if (answer !== null && !isStale) onAnswer(answer);
  }, [answer, isStale]);
  const reason = error?.message ?? row.reason;
  return (
    <tr>
      <th scope="row" title={row.meaning}>
        <div class="change-name">
          <label>
            <input
              type="checkbox"
              checked={isChosen(row, scenario)}
              disabled={row.reason !== null && !isChosen(row, scenario)}
              onChange={(event) => onChange(withRow(row, event.currentTarget.checked, scenario))}
            />
            {hasSpeed(row) ? <span class="slider-name">{row.label}</span> : row.label}
          </label>
          {hasSpeed(row) && <Speed {...props} type={row.value} />}
        </div>{" "}
      </th>
      {reason === null ? (
        <Effect answer={data} largest={largest} />
      ) : (
        <td colSpan={4} class="muted">
          {reason}
        </td>
      )}
    </tr>
  );
}

/** A smaller share of the step is no effect. */
const LEAST_EFFECT = 0.001;

/** The cells of a change: the step, the effect as a bar, the saving, and what limits next. */
function Effect({ answer, largest }: { answer: Answer | null; largest: number }) {
  if (answer === null) {
    return (
      <td colSpan={4} class="muted">
        …
      </td>
    );
  }
  const effect = effectOf(answer);
  const share = effect / Math.max(answer.measured_step_ns, 1);
  const isNone = share <= LEAST_EFFECT;
  const tone = isNone ? "muted" : "";
  return (
    <>
      <td class={`align-right step-cell ${tone}`}>
        <Step answer={answer} />
      </td>
      <td class="effect-cell">
        <span class="effect" aria-hidden="true">
          <i style={{ width: `${Math.max((100 * effect) / largest, 0)}%` }} />
        </span>
        {!isNone && <span class="effect-text">−{formatPct(100 * share)} %</span>}
      </td>
      <td class={`align-right saving-cell ${tone}`}>
        <Saving answer={answer} isNone={isNone} />
      </td>
      <td class={`limit-cell ${tone}`}>{LIMITS[answer.bound_by ?? ""] ?? "–"}</td>
    </>
  );
}

/** The step with a change; a range where it is uncertain how much is saved. */
function Step({ answer }: { answer: Answer }) {
  const { predicted_step_ns: step, measured_step_ns, uncertain_ns, reason } = answer;
  const high = step ?? measured_step_ns;
  if (!uncertain_ns) {
    return step === null ? (
      <Unknown reason={reason ?? undefined} />
    ) : (
      <span>{durationText(high)}</span>
    );
  }
  const times = { least: durationText(high - uncertain_ns), most: durationText(high) };
  return <span title={reason ?? ""}>{t("{least} to {most}", times)}</span>;
}

/** What is known to be saved; of CPU time that may be the profiler's, nothing is. */
function Saving(props: { answer: Answer; isNone: boolean }) {
  const { saving_ns, uncertain_ns, reason, is_bound } = props.answer;
  if (saving_ns === null) return <Unknown reason={reason ?? undefined} />;
  if (props.isNone) return <>{reason === null ? t("none") : <Unknown reason={reason} />}</>;
  const time = durationText(saving_ns);
  if (uncertain_ns) return <span title={reason ?? ""}>{t("at least {time}", { time })}</span>;
  return <>{is_bound === true ? t("up to {time}", { time }) : time}</>;
}

function Speed(props: ChangesProps & { type: string }) {
  const { type, scenario, onDrag, onChange } = props;
  const position = positionOf(type, scenario);
  const speed = t("{factor}x", { factor: formatFixed(2 ** position, 2) });
  const moved = (event: { readonly currentTarget: HTMLInputElement }) =>
    withSpeed(type, Number(event.currentTarget.value), scenario);
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
        onInput={(event) => onDrag(moved(event))}
        onChange={(event) => onChange(moved(event))}
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
function Control({ change, value, onChange }: ValueProps) {
  const { takes, label, meaning, unit } = change;
  if (isSwitch(change) || takes === "factors" || takes === "rank") return null;
  const read = (event: { readonly currentTarget: HTMLInputElement }) =>
    onChange(event.currentTarget.value.trim());
  const name = <span class="field-label">{unit ? `${label} (${unit})` : label}</span>;
  if (takes === "number") {
    return (
      <label class="field" title={meaning}>
        {name}
        <input class="input" type="number" min={0} step="any" value={value} onChange={read} />
      </label>
    );
  }
  const form = t("op type; op; kernel");
  return (
    <label class="field" title={meaning}>
      {name}
      <input class="input" type="text" placeholder={form} value={value} onChange={read} />
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

/** The change of the step in words. */
function difference({ measured_step_ns: before, saving_ns, interval_ns }: Answer): string {
  const saving = saving_ns ?? 0;
  const values = {
    share: formatPct(Math.abs((100 * saving) / Math.max(before, 1))),
    before: durationText(before),
  };
  const [low, high] = interval_ns ?? [];
  if (low === undefined || high === undefined) {
    return t("At least {share} % less than {before}", values);
  }
  const interval = { ...values, low: durationText(low), high: durationText(high) };
  return saving < 0
    ? t("{share} % more than {before}; 10th to 90th percentile {low} to {high}", interval)
    : t("{share} % less than {before}; 10th to 90th percentile {low} to {high}", interval);
}

interface PredictedProps {
  readonly fit: CriticalPath;
  readonly scenario: Scenario;
  readonly onReset: () => void;
}

function Predicted({ fit, scenario, onReset }: PredictedProps) {
  const { data, error } = usePrediction(fit, scenario);
  const isChanged = data !== null && data.is_bound !== null;
  const isNone = isUnchanged(scenario);
  return (
    <div class="predicted">
      <p class="predicted-label">
        {fit.is_recorded_span ? t("Recorded span") : t("Predicted step")}
      </p>
      {error !== null ? (
        <ErrorNote error={error} />
      ) : (
        <>
          <p class="predicted-step" role="status">
            {isChanged && <Step answer={data} />}
            {!isChanged && (isNone ? durationText(fit.measured_step_ns) : "…")}
          </p>
          <p class="muted">
            {isNone && t("Unchanged: choose changes to combine them.")}
            {isChanged && data.saving_ns !== null && difference(data)}
          </p>
          {isChanged && data.reason !== null && <p>{data.reason}</p>}
        </>
      )}
      {data?.is_bound === true && (
        <p class="muted">{t("A bound: with this change, other kernels would run.")}</p>
      )}
      <Button disabled={isNone} onClick={onReset}>
        {t("Reset")}
      </Button>
    </div>
  );
}
