/** The re-aggregation job of a profile: found again after a reload, polled while it runs. */

import { createContext } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, apiUrl, getJson, postJson, toApiError } from "../api/client";
import type { Job, NewAggregation } from "../api/types";
import { readStored, writeStored } from "./storage";

const POLL_MS = 600;
const POLL_HIDDEN_MS = 4_000;

/** The job this browser started last: its end is reported even if the page was reloaded meanwhile. */
const WATCHED = "job";

export function isActive(job: Job): boolean {
  return job.state === "queued" || job.state === "running";
}

/** The job to report on: a running one first, else the watched one, whatever became of it. */
export function pickJob(jobs: readonly Job[], watched: string | null): Job | null {
  const active = jobs.find(isActive);
  if (active !== undefined) return active;
  return jobs.find((job) => String(job.id) === watched) ?? null;
}

/** The job to report on when the page is loaded: the watched one may lie behind many others. */
async function findJob(
  profileId: string,
  watched: string | null,
  signal: AbortSignal,
): Promise<Job | null> {
  if (watched !== null) {
    const own = await getJson<Job>(apiUrl(`jobs/${watched}/`), signal).catch(() => null);
    if (own !== null && own.profile_id === profileId && isActive(own)) return own;
  }
  const url = apiUrl("jobs/", { profile: profileId, page_size: 25 });
  const list = await getJson<{ results: readonly Job[] }>(url, signal);
  return pickJob(list.results, watched);
}

export interface JobControl {
  readonly job: Job | null;
  /** Whether it was started in this browser. Other jobs are shown too, but block no request. */
  readonly isOwn: boolean;
  readonly error: ApiError | null;
  readonly start: (request: NewAggregation) => Promise<Job>;
  readonly cancel: () => void;
  readonly retry: () => void;
  readonly dismiss: () => void;
}

export function useJob(profileId: string): JobControl {
  const [job, setJob] = useState<Job | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  // What is asked for meanwhile is newer than what the search at the start finds.
  const isSearched = useRef(false);
  // An answer may still come about a job that another has taken the place of.
  const update = useCallback((next: Job) => {
    setError(null);
    setJob((now) => (now?.id === next.id ? next : now));
  }, []);
  const watch = (next: Job) => {
    writeStored(WATCHED, String(next.id));
    isSearched.current = false;
    setError(null);
    setJob(next);
  };

  useEffect(() => {
    const controller = new AbortController();
    isSearched.current = true;
    findJob(profileId, readStored(WATCHED), controller.signal)
      .then((found) => {
        if (isSearched.current) setJob(found);
        isSearched.current = false;
      })
      // The page works without the list of jobs; starting a job reports the error.
      .catch(() => undefined);
    return () => controller.abort();
  }, [profileId]);

  usePolling(job, update, setError);

  const start = async (request: NewAggregation) => {
    const started = await postJson<Job>(apiUrl(`profiles/${profileId}/aggregations/`), request);
    watch(started);
    return started;
  };
  const act = (verb: "cancel" | "retry") => {
    if (job === null) return;
    postJson<Job>(apiUrl(`jobs/${job.id}/${verb}/`))
      .then(watch)
      .catch((reason: unknown) => setError(toApiError(reason)));
  };
  const dismiss = () => {
    writeStored(WATCHED, null);
    setError(null);
    setJob(null);
  };
  const isOwn = job !== null && String(job.id) === readStored(WATCHED);
  return {
    job,
    isOwn,
    error,
    start,
    cancel: () => act("cancel"),
    retry: () => act("retry"),
    dismiss,
  };
}

/** Polls the job while it is active; slower when the page is hidden. */
function usePolling(
  job: Job | null,
  report: (job: Job) => void,
  fail: (error: ApiError) => void,
): void {
  const id = job !== null && isActive(job) ? job.id : null;
  useEffect(() => {
    if (id === null) return;
    let timer = 0;
    let isStopped = false;
    const next = () => {
      timer = window.setTimeout(poll, document.hidden ? POLL_HIDDEN_MS : POLL_MS);
    };
    const poll = () => {
      getJson<Job>(apiUrl(`jobs/${id}/`))
        .then((answer) => {
          if (isStopped) return;
          report(answer);
          if (isActive(answer)) next();
        })
        .catch((reason: unknown) => {
          if (isStopped) return;
          fail(toApiError(reason));
          next();
        });
    };
    next();
    return () => {
      isStopped = true;
      window.clearTimeout(timer);
    };
  }, [id, report, fail]);
}

export const JobContext = createContext<JobControl | null>(null);

export function useJobControl(): JobControl {
  const jobs = useContext(JobContext);
  if (jobs === null) throw new Error("useJobControl outside of JobContext");
  return jobs;
}
