/** Profiles on their way: what the import is at, or why it failed. */

import { useState } from "preact/hooks";
import { type ApiError, apiUrl, postJson, sendJson, toApiError } from "../../api/client";
import type { Job, RankFile } from "../../api/types";
import { t } from "../../i18n";
import { formatPct } from "../../lib/units";
import { isActive } from "../../state/jobs";
import { Button } from "../../ui/Button";
import { ErrorNote } from "../../ui/states";

export function ImportList({ jobs, onChanged }: { jobs: readonly Job[]; onChanged: () => void }) {
  if (jobs.length === 0) return null;
  return (
    <section aria-label={t("Imports")}>
      <h3>{t("Imports")}</h3>
      <ul class="profiles-list">
        {jobs.map((job) => (
          <ImportRow key={job.id} job={job} onChanged={onChanged} />
        ))}
      </ul>
    </section>
  );
}

function label(job: Job): string {
  const name = job.profile_name ?? "";
  return name === "" ? job.profile_id : name;
}

function stateText(job: Job, pct: number): string {
  return job.state === "queued" ? t("Waiting for a free worker") : `${formatPct(pct)} %`;
}

function ImportRow({ job, onChanged }: { job: Job; onChanged: () => void }) {
  const [error, setError] = useState<ApiError | null>(null);
  const act = (change: Promise<unknown>) => {
    change.then(onChanged).catch((reason: unknown) => setError(toApiError(reason)));
  };
  const post = (verb: string) => act(postJson(apiUrl(`jobs/${job.id}/${verb}/`)));
  const pct = job.progress_pct ?? 0;
  return (
    <li>
      <div class="profiles-row">
        <span class="profiles-name">{label(job)}</span>
        {isActive(job) ? (
          <>
            <progress max={100} value={pct} aria-label={t("Progress of the import")} />
            <span>{job.phase === "record" ? t("Recording") : stateText(job, pct)}</span>
            <Button onClick={() => post("cancel")}>{t("Cancel")}</Button>
          </>
        ) : (
          <>
            <Button onClick={() => post("retry")}>{t("Try again")}</Button>
            <Button onClick={() => act(sendJson("DELETE", apiUrl(`profiles/${job.profile_id}/`)))}>
              {t("Delete")}
            </Button>
          </>
        )}
      </div>
      {job.files !== undefined && job.files.length > 0 && <RankFileStates files={job.files} />}
      {!isActive(job) && job.error !== null && (
        <p class="error-message">
          {job.error.message} {job.error.hint}
        </p>
      )}
      {error !== null && <ErrorNote error={error} />}
    </li>
  );
}

const STATES = {
  waiting: () => t("waiting"),
  importing: () => t("importing"),
  done: () => t("imported"),
  failed: () => t("failed"),
} satisfies Record<RankFile["state"], () => string>;

/** How far each rank file of a job is. */
function RankFileStates({ files }: { files: readonly RankFile[] }) {
  const done = files.filter((file) => file.state === "done").length;
  return (
    <details class="profiles-parts" open={files.length <= 8}>
      <summary>{t("{done} of {count} rank files imported", { done, count: files.length })}</summary>
      <ul>
        {files.map((file) => (
          <li key={file.file_name} data-state={file.state}>
            <span class="profiles-file">
              {file.rank === null ? file.file_name : `${file.rank}: ${file.file_name}`}
            </span>{" "}
            {STATES[file.state]()}
          </li>
        ))}
      </ul>
    </details>
  );
}
