/** The panel that floats over every view from "Underway" to "Success": the page stays usable. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Job } from "../api/types";
import { t } from "../i18n";
import { rangeText } from "../lib/aggregations";
import { formatInt, formatPct, formatSeconds } from "../lib/units";
import { isActive, type JobControl } from "../state/jobs";
import { currentQuery, navigate } from "../state/location";
import { patchForView } from "../state/query";
import { Button, IconButton } from "../ui/Button";
import { Name } from "../ui/Name";
import { ErrorNote } from "../ui/states";

const PHASES: Readonly<Record<string, string>> = {
  queued: t("Waiting for a free worker"),
  read: t("Reading the events"),
  correlate: t("Matching ops and kernels"),
  aggregate: t("Computing the figures"),
  write: t("Writing the aggregation"),
  index: t("Indexing"),
};

function phaseText(job: Job): string {
  if (job.state === "queued") return waitingText(job.jobs_before ?? 0);
  const phase = job.phase ?? "";
  return PHASES[phase] ?? (phase === "" ? t("Starting") : phase);
}

function waitingText(before: number): string {
  if (before === 0) return t("Waiting for a free worker");
  return t("Waiting: {count} jobs before it", { count: formatInt(before) });
}

/** What the job was asked for: the range, and the key node on a line of its own. */
function RequestText({ job }: { job: Job }) {
  const keyNode = job.request.key_node;
  return (
    <div class="job-request">
      <p>{rangeText(job.request)}</p>
      {keyNode != null && keyNode !== "" && <Name name={keyNode} />}
    </div>
  );
}

export function JobPanel({ jobs }: { jobs: JobControl }) {
  const { job } = jobs;
  if (job === null) return null;
  if (isActive(job)) return <Underway job={job} jobs={jobs} />;
  if (job.state === "done") return <Success job={job} jobs={jobs} />;
  return <Ended job={job} jobs={jobs} />;
}

function Frame(props: {
  title: string;
  tone: string;
  onClose?: () => void;
  events?: GoingEvents;
  children: ComponentChildren;
}) {
  return (
    <section
      class={`job-panel job-${props.tone}`}
      aria-label={t("Re-aggregation")}
      {...props.events}
    >
      <header>
        <h2 aria-live="polite">{props.title}</h2>
        {props.onClose !== undefined && (
          <IconButton icon="close" label={t("Dismiss")} onClick={props.onClose} />
        )}
      </header>
      {props.children}
    </section>
  );
}

function Underway({ job, jobs }: { job: Job; jobs: JobControl }) {
  const pct = job.progress_pct ?? 0;
  const facts: string[] = [];
  if (job.rows_per_s !== null && job.rows_per_s > 0)
    facts.push(t("{count} rows/s", { count: formatInt(job.rows_per_s) }));
  if (job.eta_s !== null) facts.push(t("{time} left", { time: formatSeconds(job.eta_s) }));
  return (
    <Frame title={t("Underway!")} tone="active">
      <RequestText job={job} />
      <progress max={100} value={pct} aria-label={t("Progress of the re-aggregation")} />
      <p class="job-facts">
        <span>{phaseText(job)}</span>
        <b>{formatPct(pct)} %</b>
      </p>
      <p class="job-facts">{facts.join(" · ")}</p>
      {jobs.error !== null && <p class="job-trouble">{jobs.error.message}</p>}
      <div class="job-actions">
        <Button onClick={jobs.cancel}>{t("Cancel")}</Button>
      </div>
    </Frame>
  );
}

/** Opens the new aggregation in the view that is open now. */
function show(job: Job): void {
  const query = currentQuery();
  const patch = patchForView(query, query.get("view") ?? "dashboard");
  const aggregation = String(job.aggregation_id);
  const profile = job.result_profile_id ?? job.profile_id;
  if (profile === job.profile_id) navigate({ ...patch, aggregation });
  else {
    navigate({ ...patch, profile, aggregation, domain: null });
    // The list of profiles was read when the page was loaded; the new one came after that.
    window.location.reload();
  }
}

type GoingEvents = Readonly<
  Record<"onMouseEnter" | "onMouseLeave" | "onFocusIn" | "onFocusOut", () => void>
>;

/** Good news goes by itself, but not from under the pointer or the focus. */
const SUCCESS_MS = 20_000;

function useGoing(dismiss: () => void): GoingEvents {
  const [isHeld, setHeld] = useState(false);
  const latest = useRef(dismiss);
  latest.current = dismiss;
  useEffect(() => {
    if (isHeld) return;
    const timer = window.setTimeout(() => latest.current(), SUCCESS_MS);
    return () => window.clearTimeout(timer);
  }, [isHeld]);
  const hold = () => setHeld(true);
  const letGo = () => setHeld(false);
  return { onMouseEnter: hold, onMouseLeave: letGo, onFocusIn: hold, onFocusOut: letGo };
}

function Success({ job, jobs }: { job: Job; jobs: JobControl }) {
  const going = useGoing(jobs.dismiss);
  return (
    <Frame title={t("Success!")} tone="done" onClose={jobs.dismiss} events={going}>
      <p>
        {t("Aggregation #{id} is ready. The previous one stays in the list.", {
          id: job.aggregation_id ?? "",
        })}
      </p>
      <RequestText job={job} />
      <div class="job-actions">
        <Button
          class="button button-primary"
          onClick={() => {
            show(job);
            jobs.dismiss();
          }}
        >
          {t("Show it")}
        </Button>
      </div>
    </Frame>
  );
}

function Ended({ job, jobs }: { job: Job; jobs: JobControl }) {
  const isCancelled = job.state === "cancelled";
  return (
    <Frame
      title={isCancelled ? t("Re-aggregation cancelled") : t("Re-aggregation failed")}
      tone={isCancelled ? "cancelled" : "failed"}
      onClose={jobs.dismiss}
    >
      {isCancelled || job.error === null ? (
        <p class="job-request">{job.message ?? t("Nothing was changed.")}</p>
      ) : (
        <>
          <p class="error-message">{job.error.message}</p>
          {job.error.hint !== "" && <p class="error-hint">{job.error.hint}</p>}
          <code>{job.error.code}</code>
        </>
      )}
      {jobs.error !== null && <ErrorNote error={jobs.error} />}
      <div class="job-actions">
        <Button onClick={jobs.retry}>{t("Try again")}</Button>
      </div>
    </Frame>
  );
}
