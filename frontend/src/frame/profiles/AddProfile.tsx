/** The form that adds a profile: files of this computer, or some that the server can read. */

import { useRef, useState } from "preact/hooks";
import { type ApiError, apiUrl, isAbort, postFile, postJson, toApiError } from "../../api/client";
import type { Upload } from "../../api/types";
import { t } from "../../i18n";
import { formatPct } from "../../lib/units";
import { asChosen, type ChosenFile, rankMistake, wantedRanks } from "../../state/rankFiles";
import { Button } from "../../ui/Button";
import { ErrorNote } from "../../ui/states";
import { RankFiles } from "./RankFiles";

interface Work {
  readonly text: string;
  readonly share: number | null;
  /** Of several files, the share of each. */
  readonly shares?: readonly number[];
}

export function AddProfile({ onAdded }: { onAdded: () => void }) {
  const [chosen, setChosen] = useState<readonly ChosenFile[]>([]);
  const [path, setPath] = useState("");
  const [name, setName] = useState("");
  const [work, setWork] = useState<Work | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [status, setStatus] = useState("");
  const stop = useRef<AbortController | null>(null);
  const picker = useRef<HTMLInputElement>(null);

  const dropFiles = () => {
    setChosen([]);
    if (picker.current !== null) picker.current.value = "";
  };
  const clear = () => {
    dropFiles();
    setPath("");
    setName("");
  };
  // Files and a path exclude each other: the later choice is meant, and an old error is not of it.
  const chooseFiles = (files: readonly File[]) => {
    setChosen(asChosen(files));
    if (files.length > 0) setPath("");
    setError(null);
  };
  const changeFiles = (left: readonly ChosenFile[]) => {
    if (left.length === 0) dropFiles();
    else setChosen(left);
    setError(null);
  };
  const typePath = (typed: string) => {
    setPath(typed);
    if (typed.trim() !== "") dropFiles();
    setError(null);
  };
  const add = async () => {
    const controller = new AbortController();
    stop.current = controller;
    const rest = name.trim() === "" ? {} : { name: name.trim() };
    if (chosen.length === 0) {
      setWork({ text: t("Checking the file"), share: null });
      await postJson(apiUrl("profiles/"), { path: path.trim(), ...rest });
      return;
    }
    const uploads = await uploadAll(chosen, setWork, controller.signal);
    const shares = chosen.length > 1 ? { shares: chosen.map(() => 1) } : {};
    setWork({ text: t("Checking the file"), share: null, ...shares });
    const ranks = wantedRanks(chosen);
    const body =
      uploads.length === 1
        ? { upload: uploads[0] }
        : { uploads, ...(ranks === null ? {} : { ranks }) };
    await postJson(apiUrl("profiles/"), { ...body, ...rest });
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    setError(null);
    setStatus("");
    add()
      .then(() => {
        setStatus(
          t("Added. A profile that must be imported appears when the import has finished."),
        );
        clear();
        onAdded();
      })
      .catch((reason: unknown) => {
        if (isAbort(reason)) setStatus(t("Stopped."));
        else setError(toApiError(reason));
      })
      .finally(() => setWork(null));
  };
  const isChosen = chosen.length > 0 && rankMistake(chosen) === null;
  const isReady = work === null && (isChosen || path.trim() !== "");
  return (
    <form class="profiles-add" onSubmit={submit} aria-label={t("Add a profile")}>
      <h3>{t("Add a profile")}</h3>
      <p class="help-note">
        {t(
          "An SQLite export of Nsight Systems, a .nsys-rep, a trace of torch.profiler, or a database that dlprof wrote.",
        )}
      </p>
      <div class="profiles-fields">
        <label class="field">
          <span class="field-label">
            {t("A file on this computer, or the files of all ranks of a job")}
          </span>
          <input
            ref={picker}
            type="file"
            multiple
            class="input"
            data-initial
            disabled={work !== null}
            onChange={(event) => chooseFiles([...(event.currentTarget.files ?? [])])}
          />
        </label>
        <label class="field">
          <span class="field-label">
            {t("Or a path on the server: a file, a folder of ranks, rank*.sqlite")}
          </span>
          <input
            class="input input-mono"
            value={path}
            disabled={work !== null}
            onInput={(event) => typePath(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          <span class="field-label">{t("Name (optional)")}</span>
          <input
            class="input"
            value={name}
            maxLength={200}
            disabled={work !== null}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="button button-primary" disabled={!isReady}>
          {t("Add")}
        </button>
      </div>
      {chosen.length > 1 && (
        <RankFiles chosen={chosen} shares={work?.shares ?? null} onChange={changeFiles} />
      )}
      {work !== null && <Progress work={work} onStop={() => stop.current?.abort()} />}
      <p class="profiles-status" role="status">
        {status}
      </p>
      {error !== null && <ErrorNote error={error} />}
    </form>
  );
}

/** Sends the files one after another; the ids of their uploads, in the same order. */
async function uploadAll(
  chosen: readonly ChosenFile[],
  setWork: (work: Work) => void,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const shares = chosen.map(() => 0);
  const total = chosen.reduce((sum, item) => sum + item.file.size, 0);
  const uploads: string[] = [];
  for (const [index, { file }] of chosen.entries()) {
    const report = (share: number) => {
      shares[index] = share;
      const sent = chosen.reduce((sum, item, at) => sum + item.file.size * (shares[at] ?? 0), 0);
      const each = chosen.length > 1 ? { shares: [...shares] } : {};
      setWork({ text: t("Uploading"), share: total > 0 ? sent / total : 1, ...each });
    };
    const url = apiUrl("uploads/", { file_name: file.name });
    uploads.push((await postFile<Upload>(url, file, report, signal)).id);
  }
  return uploads;
}

function Progress({ work, onStop }: { work: Work; onStop: () => void }) {
  const pct = work.share === null ? null : work.share * 100;
  return (
    <div class="profiles-progress">
      <progress max={100} value={pct ?? undefined} aria-label={work.text} />
      <span>
        {work.text}
        {pct !== null && ` ${formatPct(pct)} %`}
      </span>
      {pct !== null && <Button onClick={onStop}>{t("Stop")}</Button>}
    </div>
  );
}
