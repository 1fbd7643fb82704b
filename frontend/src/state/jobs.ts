/** The re-aggregation job of a profile: found again after a reload, polled while it runs. */

import { useCallback, useEffect, useState } from "preact/hooks";
import { type ApiError, apiUrl, getJson, postJson, toApiError } from "../api/client";
import type { AggregationRequest, Job } from "../api/types";
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

export interface JobControl {
  readonly job: Job | null;
  readonly error: ApiError | null;
  readonly start: (request: AggregationRequest) => Promise<Job>;
  readonly cancel: () => void;
  readonly retry: () => void;
  readonly dismiss: () => void;
}

export function useJob(profileId: string): JobControl {
  const [job, setJob] = useState<Job | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const report = useCallback((next: Job) => {
    writeStored(WATCHED, String(next.id));
    setError(null);
    setJob(next);
  }, []);

  useEffect(() => {
    const controller = new AbortController();
    const url = apiUrl("jobs/", { profile: profileId, page_size: 25 });
    getJson<{ results: readonly Job[] }>(url, controller.signal)
      .then((list) => {
        const found = pickJob(list.results, readStored(WATCHED));
        if (found !== null && isActive(found)) writeStored(WATCHED, String(found.id));
        setJob(found);
      })
      // The page works without its jobs; starting one will say what is wrong.
      .catch(() => undefined);
    return () => controller.abort();
  }, [profileId]);

  usePolling(job, report, setError);

  const start = async (request: AggregationRequest) => {
    const started = await postJson<Job>(apiUrl(`profiles/${profileId}/aggregations/`), request);
    report(started);
    return started;
  };
  const act = (verb: "cancel" | "retry") => {
    if (job === null) return;
    postJson<Job>(apiUrl(`jobs/${job.id}/${verb}/`))
      .then(report)
      .catch((reason: unknown) => setError(toApiError(reason)));
  };
  const dismiss = () => {
    writeStored(WATCHED, null);
    setError(null);
    setJob(null);
  };
  return { job, error, start, cancel: () => act("cancel"), retry: () => act("retry"), dismiss };
}

/** Asks for the job again and again while it is active; slower when nobody looks. */
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
