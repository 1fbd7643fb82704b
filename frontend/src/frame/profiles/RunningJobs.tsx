/** Jobs of the viewer's machine that stand by: each can be recorded as it runs. */

import { useEffect, useState } from "preact/hooks";
import { type ApiError, apiUrl, getJson, postJson, toApiError } from "../../api/client";
import type { RunningJobs as Listed, NewWindow, RunningJob } from "../../api/types";
import { t } from "../../i18n";
import { Button } from "../../ui/Button";
import { ErrorNote } from "../../ui/states";

const POLL_MS = 5_000;

export function RunningJobs({ onAsked }: { onAsked: () => void }) {
  const [jobs, setJobs] = useState<readonly RunningJob[]>([]);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    const read = () => {
      getJson<Listed>(apiUrl("running-jobs/"))
        .then((found) => setJobs(found.results))
        .catch((reason: unknown) => setError(toApiError(reason)));
    };
    read();
    const timer = window.setInterval(read, POLL_MS);
    return () => window.clearInterval(timer);
  }, []);
  const record = (job: RunningJob) => {
    const wanted: Partial<NewWindow> = { process: job.process, all_ranks: job.processes > 1 };
    setError(null);
    postJson(apiUrl("running-jobs/"), wanted)
      .then(onAsked)
      .catch((reason: unknown) => setError(toApiError(reason)));
  };
  if (jobs.length === 0 && error === null) return null;
  return (
    <section aria-label={t("Running jobs")}>
      <h3>{t("Running jobs")}</h3>
      <ul class="profiles-list">
        {jobs.map((job) => (
          <li key={job.process}>
            <div class="profiles-row">
              <span class="profiles-name">{job.command}</span>
              <span>{t("{count} processes", { count: job.processes })}</span>
              <Button
                disabled={job.processes === 0}
                aria-label={t("Record now: {command}", { command: job.command })}
                onClick={() => record(job)}
              >
                {t("Record now")}
              </Button>
            </div>
          </li>
        ))}
      </ul>
      {error !== null && <ErrorNote error={error} />}
    </section>
  );
}
