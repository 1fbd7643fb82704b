/** All jobs, newest first: what runs, what waits, what became of the others; cancel and try again. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, apiUrl, getJson, postJson, toApiError } from "../api/client";
import type { JobState } from "../api/lists";
import type { Job } from "../api/types";
import { t } from "../i18n";
import { rangeText } from "../lib/aggregations";
import { formatInt, formatPct, formatSeconds } from "../lib/units";
import { isActive } from "../state/jobs";
import { newestOnly } from "../state/newest";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { Name } from "../ui/Name";
import { ErrorNote } from "../ui/states";

const POLL_MS = 2_000;
const PAGE_SIZE = 25;

const STATES: Readonly<Record<JobState, string>> = {
  queued: t("Queued"),
  running: t("Running"),
  done: t("Done"),
  failed: t("Failed"),
  cancelled: t("Cancelled"),
};

interface Found {
  readonly count: number;
  readonly results: readonly Job[];
}

function useJobs(state: string, page: number) {
  const [found, setFound] = useState<Found | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const take = useRef(newestOnly());
  const read = useCallback(() => {
    const chosen = state === "" ? {} : { state };
    const use = (answer: Found) => {
      setFound(answer);
      setError(null);
    };
    const answer = getJson<Found>(apiUrl("jobs/", { page, page_size: PAGE_SIZE, ...chosen }));
    void take.current(answer, use, (reason) => setError(toApiError(reason)));
  }, [state, page]);
  useEffect(() => {
    read();
    const timer = window.setInterval(read, POLL_MS);
    return () => window.clearInterval(timer);
  }, [read]);
  return { found, error, setError, read };
}

export function JobsDialog({ onClose }: { onClose: () => void }) {
  const [state, setState] = useState("");
  const [page, setPage] = useState(1);
  const { found, error, setError, read } = useJobs(state, page);
  const act = (job: Job, verb: "cancel" | "retry") => {
    postJson(apiUrl(`jobs/${job.id}/${verb}/`))
      .then(read)
      .catch((reason: unknown) => setError(toApiError(reason)));
  };
  const pages = Math.max(1, Math.ceil((found?.count ?? 0) / PAGE_SIZE));
  return (
    <Dialog title={t("Jobs")} onClose={onClose} size="large">
      <div class="jobs">
        <label class="field jobs-filter">
          <span class="field-label">{t("State")}</span>
          <select
            class="select"
            value={state}
            onChange={(event) => {
              setState(event.currentTarget.value);
              setPage(1);
            }}
          >
            <option value="">{t("All")}</option>
            {Object.entries(STATES).map(([id, name]) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        {error !== null && <ErrorNote error={error} />}
        {found?.results.length === 0 && <p>{t("There are no jobs.")}</p>}
        <ul class="jobs-list" aria-label={t("Jobs")}>
          {found?.results.map((job) => (
            <JobRow key={job.id} job={job} onAct={(verb) => act(job, verb)} />
          ))}
        </ul>
        {pages > 1 && <Pages page={page} pages={pages} count={found?.count ?? 0} go={setPage} />}
      </div>
    </Dialog>
  );
}

function Pages(props: { page: number; pages: number; count: number; go: (page: number) => void }) {
  const { page, pages, count, go } = props;
  return (
    <div class="jobs-pages">
      <Button disabled={page <= 1} onClick={() => go(page - 1)}>
        {t("Newer")}
      </Button>
      <span>
        {t("Page {page} of {pages}, {count} jobs", {
          page: formatInt(page),
          pages: formatInt(pages),
          count: formatInt(count),
        })}
      </span>
      <Button disabled={page >= pages} onClick={() => go(page + 1)}>
        {t("Older")}
      </Button>
    </div>
  );
}

function JobRow(props: { job: Job; onAct: (verb: "cancel" | "retry") => void }) {
  const { job, onAct } = props;
  const canRetry = job.state === "failed" || job.state === "cancelled";
  return (
    <li class={`jobs-row jobs-${job.state}`}>
      <span class="jobs-state">{STATES[job.state]}</span>
      <div class="jobs-what">
        <Subject job={job} />
        <p class="jobs-facts">{factsOf(job)}</p>
        {job.state === "running" && (
          <progress max={100} value={job.progress_pct ?? 0} aria-label={t("Progress")} />
        )}
        {job.error !== null && (
          <p class="error-message">
            {job.error.message} {job.error.hint}
          </p>
        )}
      </div>
      {isActive(job) && (
        <Button disabled={job.is_cancel_requested} onClick={() => onAct("cancel")}>
          {t("Cancel")}
        </Button>
      )}
      {canRetry && <Button onClick={() => onAct("retry")}>{t("Try again")}</Button>}
    </li>
  );
}

/** What was asked for. */
function Subject({ job }: { job: Job }) {
  const keyNode = job.request.key_node;
  const isImport = job.kind === "import";
  const name = job.profile_name ?? "";
  return (
    <div class="jobs-subject">
      <b>{isImport ? t("Import") : rangeText(job.request)}</b>{" "}
      {keyNode != null && keyNode !== "" && <Name name={keyNode} />}
      <span class="jobs-profile">
        {name === "" ? t("a profile that is no longer listed") : name}
      </span>
    </div>
  );
}

function moment(time: string): string {
  return new Date(time).toLocaleString(document.documentElement.lang || undefined);
}

/** When, how far, how fast. */
function factsOf(job: Job): string {
  const facts: string[] = [];
  if (job.created_at !== null) facts.push(moment(job.created_at));
  if (job.state === "running") {
    facts.push(`${formatPct(job.progress_pct ?? 0)} %`);
    if (job.rows_per_s !== null && job.rows_per_s > 0)
      facts.push(t("{count} rows/s", { count: formatInt(job.rows_per_s) }));
    if (job.eta_s !== null) facts.push(t("{time} left", { time: formatSeconds(job.eta_s) }));
  }
  if (job.started_at !== null && job.finished_at !== null) {
    const seconds = (Date.parse(job.finished_at) - Date.parse(job.started_at)) / 1e3;
    facts.push(t("took {time}", { time: formatSeconds(Math.max(0, seconds)) }));
  }
  if (job.state === "done" && job.aggregation_id !== null)
    facts.push(t("aggregation #{id}", { id: job.aggregation_id }));
  return facts.join(" · ");
}
