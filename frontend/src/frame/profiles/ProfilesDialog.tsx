/** The profiles of this viewer: add one, see what is being imported, rename, delete. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, apiUrl, getJson, toApiError } from "../../api/client";
import type { Job, ProfileItem } from "../../api/types";
import { t } from "../../i18n";
import { isActive } from "../../state/jobs";
import { newestOnly } from "../../state/newest";
import { Dialog } from "../../ui/Dialog";
import { ErrorNote } from "../../ui/states";
import { AddProfile } from "./AddProfile";
import { ImportList } from "./ImportList";
import { ProfileRow } from "./ProfileRow";
import { RunningJobs } from "./RunningJobs";

const POLL_MS = 1_000;

interface Lists {
  readonly profiles: readonly ProfileItem[];
  readonly imports: readonly Job[];
}

async function readLists(): Promise<Lists> {
  // Jobs first: the profile of an import that has ended by then is in the list that is read next.
  const jobs = await getJson<{ results: readonly Job[] }>(
    apiUrl("jobs/", { kind__in: "import", page_size: 25 }),
  );
  const profiles = await getJson<{ results: readonly ProfileItem[] }>(
    apiUrl("profiles/", { page_size: 200 }),
  );
  const imports = jobs.results.filter((job) => isActive(job) || job.state === "failed");
  return { profiles: profiles.results, imports };
}

export interface ProfilesDialogProps {
  /** The profile that the address names; null: none, the page shows the first. */
  readonly shown: string | null;
  readonly onClose: () => void;
}

export function ProfilesDialog({ shown, onClose }: ProfilesDialogProps) {
  const [lists, setLists] = useState<Lists | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [isChanged, setChanged] = useState(false);
  const take = useRef(newestOnly());
  const read = useCallback(() => {
    const use = (found: Lists) => {
      setLists(found);
      setError(null);
    };
    void take.current(readLists(), use, (reason) => setError(toApiError(reason)));
  }, []);
  useEffect(read, [read]);
  const isImporting = lists?.imports.some(isActive) ?? false;
  useEffect(() => {
    if (!isImporting) return;
    const timer = window.setInterval(read, POLL_MS);
    return () => window.clearInterval(timer);
  }, [isImporting, read]);

  const changed = () => {
    setChanged(true);
    read();
  };
  // The frame read names and profiles when the page was loaded.
  const close = () => {
    if (!isChanged) return onClose();
    const isThere = lists?.profiles.some((item) => item.id === shown) ?? true;
    if (shown === null || isThere) window.location.reload();
    else window.location.assign(window.location.pathname);
  };
  return (
    <Dialog title={t("Profiles")} onClose={close} size="large">
      <div class="profiles">
        <AddProfile onAdded={changed} />
        {error !== null && <ErrorNote error={error} />}
        {lists !== null && <ImportList jobs={lists.imports} onChanged={changed} />}
        <RunningJobs onAsked={changed} />
        <section aria-label={t("Profiles of this viewer")}>
          <h3>{t("Profiles of this viewer")}</h3>
          <ul class="profiles-list">
            {lists?.profiles.map((item) => (
              <ProfileRow
                key={item.id}
                item={item}
                isShown={item.id === (shown ?? lists.profiles[0]?.id)}
                onChanged={changed}
              />
            ))}
          </ul>
          {lists?.profiles.length === 0 && <p>{t("There are no profiles yet.")}</p>}
        </section>
      </div>
    </Dialog>
  );
}
